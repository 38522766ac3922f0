"""The KCL side: from the MultiLangDaemon's records to committed segments.

May import `archive`, never `compaction`.
"""
