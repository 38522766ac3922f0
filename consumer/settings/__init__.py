"""The properties file: KCL's names and ours. Imports no other room of the consumer."""
