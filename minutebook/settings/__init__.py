"""The names of a properties file, KCL's and ours: what each takes, and which do nothing."""
