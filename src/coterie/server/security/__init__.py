"""Users, ACLs, and the rules that decide which requests are permitted."""
