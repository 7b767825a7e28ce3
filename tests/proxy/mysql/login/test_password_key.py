"""Passwords encrypted for a key, and the key made once."""

from __future__ import annotations

import asyncio

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pymysql._auth import sha2_rsa_encrypt

from proxy.mysql.login.password_key import PasswordKey, PasswordKeys, encrypt

NONCE = b"0123456789abcdefghij"


def test_what_a_driver_encrypts_is_read() -> None:
    key = PasswordKey()
    assert key.decrypt(sha2_rsa_encrypt("geheim-ß".encode(), NONCE, key.pem), NONCE) == "geheim-ß".encode() + b"\0"


def test_a_password_longer_than_the_nonce_comes_through() -> None:
    key, password = PasswordKey(), bytes(range(1, 200)) + b"\0"
    encrypted = encrypt(password, NONCE, key.pem)
    assert encrypted is not None and password not in encrypted
    assert key.decrypt(encrypted, NONCE) == password


def test_a_key_of_another_kind_encrypts_nothing() -> None:
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert encrypt(b"secret\0", NONCE, pem) is None


def test_logins_at_once_share_one_key_also_where_the_first_gives_up() -> None:
    async def scenario() -> None:
        keys = PasswordKeys()
        first = asyncio.create_task(keys.key())
        await asyncio.sleep(0)
        first.cancel()
        second, third = await asyncio.gather(keys.key(), keys.key())
        assert second is third
        assert first.cancelled()

    asyncio.run(scenario())
