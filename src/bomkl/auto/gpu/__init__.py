"""Learning on a GPU, in rounds or row by row: the same learner, with its products computed by PyTorch.

Nothing here is imported before a device is asked for, because PyTorch takes seconds to load.
"""
