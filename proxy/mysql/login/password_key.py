"""How a password travels where the connection is not encrypted: XORed with the nonce and encrypted for an RSA key.

Upwell is the one side of it or the other only where of its two connections one is safe to show a password on and one is
not (`proxy/mysql/login/auth_relay.py`).
"""

from __future__ import annotations

import asyncio
from itertools import cycle

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

BITS = 2048  # as MySQL's own
PADDING = padding.OAEP(mgf=padding.MGF1(hashes.SHA1()), algorithm=hashes.SHA1(), label=None)  # the protocol's choice


class PasswordKey:
    """Upwell's own key; `pem` is its public half, as MySQL would send its own."""

    def __init__(self) -> None:
        self._private = rsa.generate_private_key(public_exponent=65537, key_size=BITS)
        self.pem = self._private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def decrypt(self, encrypted: bytes, nonce: bytes) -> bytes | None:
        """The password with its closing zero byte; None where these bytes were not made for this key and nonce."""
        try:
            password = _masked(self._private.decrypt(encrypted, PADDING), nonce)
        except ValueError:
            return None
        return password if password.find(b"\0") == len(password) - 1 else None


class PasswordKeys:
    """The process's one key, made when it is first asked for: in a thread, since it takes as long as a hundred
    logins."""

    def __init__(self) -> None:
        self._making: asyncio.Future[PasswordKey] | None = None

    async def key(self) -> PasswordKey:
        if self._making is None:
            self._making = asyncio.get_running_loop().run_in_executor(None, PasswordKey)
        return await asyncio.shield(self._making)  # who gives up waiting must not take it from the others


def encrypt(password: bytes, nonce: bytes, pem: bytes) -> bytes | None:
    """The password (with its closing zero byte) for the holder of this key; None where `pem` is no RSA key, or one too
    small for the password."""
    try:
        public = serialization.load_pem_public_key(pem)
        if not isinstance(public, rsa.RSAPublicKey):
            return None
        return public.encrypt(_masked(password, nonce), PADDING)
    except ValueError:
        return None


def _masked(text: bytes, nonce: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(text, cycle(nonce)))
