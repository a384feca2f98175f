"""A learning service: predict now, learn from the label later, lose nothing. Run it with ``bomkl serve``."""
