"""`minutebook consume`: the MultiLangDaemon and its supervisor. Imports `preflight`, `leases` and `archived`."""
