"""`minutebook consume DIR`: one daemon reads the streams of a folder, with an ordinary Scheduler of KCL for each."""
