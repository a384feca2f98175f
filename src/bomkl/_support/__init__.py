"""What every other module may use: checks of parameters, files, changes of a model, progress."""
