"""Export of fitted models to ONNX: standard operators only, so that any runtime predicts what bomkl predicts."""

from bomkl.onnx.export import to_onnx

__all__ = ["to_onnx"]
