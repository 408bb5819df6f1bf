"""What a process ignores, those that it starts ignore too, and a suite that was started in the
background ignores Ctrl-C and hang-ups. Tests send both: what has a handler here is back at its
default in a new process."""

import signal

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)
