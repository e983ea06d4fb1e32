"""Every request and response of the protocol, one declaration each, one module per subject.

Nothing is imported here: take a message from its module, or by its API from coterie.protocol.api.
"""
