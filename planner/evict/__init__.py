"""Plans that hold whole answers, and what tells when a change concerns one."""
