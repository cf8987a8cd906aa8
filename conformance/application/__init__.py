"""The commands, learners and files of ``diptych``."""
