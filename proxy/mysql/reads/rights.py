"""Who may do what with caches.

MySQL decides who reads which table. Upwell adds one list, `--admin-users`: accounts that may drop caches and see what
others asked. The account is the one that MySQL has found for the session (CURRENT_USER()), never the name that a client
gave: an anonymous account takes any.
"""

from __future__ import annotations

from collections.abc import Sequence


def is_admin(account: str, admins: Sequence[str]) -> bool:
    """Whether `user@host` is one of them. One of them that has no @ is that user at any host.

    >>> is_admin("app@%", ["ops", "app@10.0.0.%"]), is_admin("ops@%", ["ops"])
    (False, True)
    """
    user = account.rpartition("@")[0]
    return any(admin == (account if "@" in admin else user) for admin in admins if user)
