"""Clients' connections: sockets, TLS, SASL, frames, and answers in the order of requests."""
