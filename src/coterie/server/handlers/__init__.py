"""What each API does: functions of a broker and a call. coterie.server.dispatch lists them all."""
