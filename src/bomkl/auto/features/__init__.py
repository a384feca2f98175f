"""How rows are seen: views of the columns, kernels, codes."""
