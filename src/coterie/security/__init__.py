"""Who somebody is, and what they may do: SASL, TLS settings, principals, ACLs.

Steps and decisions only: no sockets, no event loop, no disk but the key files that TLS is told of. Client and
server drive the same machines, each its own side.
"""
