"""`minutebook consume`: the MultiLangDaemon and its supervisor."""
