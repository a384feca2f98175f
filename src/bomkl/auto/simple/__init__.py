"""Simple models of the rows themselves, beside the kernels: class means, and linear models of one common scale."""
