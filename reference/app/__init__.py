"""What stands around the algorithms: data sets, metrics, model files, the command line."""
