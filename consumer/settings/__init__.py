"""The one properties file: KCL's names and ours. Ground: imports no other room of the consumer."""
