"""How a client proves who it is and makes sure of the broker: TLS contexts and SASL exchanges from settings.

There is one mechanism and one protocol, those that were set; nothing falls back to less.
"""

from __future__ import annotations

import asyncio
import inspect
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

from coterie.client.security_settings import SecuritySettings
from coterie.errors import InvalidSetting
from coterie.security.jaas import JaasEntry, parse_jaas
from coterie.security.oauth import OauthClient, OauthToken
from coterie.security.plain import PlainClient
from coterie.security.sasl import SaslClient
from coterie.security.scram import ScramClient, ScramMechanism
from coterie.security.secrets import Secret
from coterie.security.tls import Store, TlsSettings, client_context

__all__ = ["ClientSecurity"]

_LOGIN_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
}
_SCRAM: Final = {each.mechanism: each for each in ScramMechanism}


class ClientSecurity:
    """What all connections of a client share. Wrong settings are found when it is made."""

    def __init__(self, settings: SecuritySettings) -> None:
        self._settings = settings
        self._tls = _tls_settings(settings) if settings.tls else None
        self._context: ssl.SSLContext | None = None
        self._login = self._read_login() if settings.sasl else None
        self.uses_sasl = settings.sasl
        self.uses_tls = settings.tls

    # -- TLS ------------------------------------------------------------------------------------------

    async def context(self) -> ssl.SSLContext | None:
        """The TLS context, or None in plain text. Stores are read and opened in a thread, once."""
        if self._tls is not None and self._context is None:
            self._context = await asyncio.to_thread(client_context, self._tls)
        return self._context

    # -- SASL -----------------------------------------------------------------------------------------

    def _read_login(self) -> JaasEntry:
        """The options of the login: from the JAAS string, or from the settings that stand for it."""
        settings, mechanism = self._settings, self._settings.mechanism
        module = _LOGIN_MODULES[mechanism]
        if jaas := settings.secret("sasl.jaas.config").reveal():
            login = parse_jaas(jaas)
            if login.name != module:
                raise InvalidSetting(
                    f"sasl.jaas.config has {login.name}, and {mechanism} needs {module}"
                )
        else:
            password = settings.secret("sasl.password").reveal()
            login = JaasEntry(
                module, {"username": settings.text("sasl.username"), "password": password}
            )
        if mechanism != "OAUTHBEARER":
            for option in ("username", "password"):
                if not login.options.get(option):
                    raise InvalidSetting(
                        f"{mechanism} needs a {option}: set sasl.{option}, or sasl.jaas.config"
                    )
        elif not callable(settings.values.get("oauth.cb")) and not self._endpoint:
            raise InvalidSetting(
                "OAUTHBEARER needs a token: give oauth_cb, a function, or set "
                "sasl.oauthbearer.token.endpoint.url"
            )
        return login

    @property
    def _endpoint(self) -> str:
        return self._settings.text("sasl.oauthbearer.token.endpoint.url")

    async def exchange(self) -> SaslClient:
        """A new exchange of the mechanism that was set."""
        assert self._login is not None  # noqa: S101 - asked for only with SASL
        mechanism, options = self._settings.mechanism, self._login.options
        if mechanism == "OAUTHBEARER":
            return OauthClient(await self._token(options))
        user, password = options["username"], Secret(options["password"])
        if mechanism == "PLAIN":
            return PlainClient(user, password)
        tokenauth = options.get("tokenauth", "").lower() == "true"
        return ScramClient(_SCRAM[mechanism], user, password, tokenauth=tokenauth)

    async def _token(self, options: dict[str, str]) -> OauthToken:
        callback = self._settings.values.get("oauth.cb")
        if callback is not None:
            argument = self._settings.secret("sasl.oauthbearer.config").reveal()
            return await _call(cast("Callable[..., Any]", callback), argument)
        from coterie.client.token_endpoint import fetch_token

        text, secret = self._settings.text, self._settings.secret
        java = "sasl.oauthbearer.client.credentials.client"
        client_secret = secret(f"{java}.secret") or secret("sasl.oauthbearer.client.secret")
        return await asyncio.to_thread(
            fetch_token,
            self._endpoint,
            client_id=(
                text(f"{java}.id")
                or text("sasl.oauthbearer.client.id")
                or options.get("clientId", "")
            ),
            client_secret=client_secret or Secret(options.get("clientSecret", "")),
            scope=text("sasl.oauthbearer.scope") or options.get("scope", ""),
            extensions=_extensions(text("sasl.oauthbearer.extensions"), options),
            context=await self.context(),
        )


async def _call(callback: Callable[..., Any], argument: str) -> OauthToken:
    """Ask the function that was given, as confluent-kafka would: (token, expiry[, principal, extensions])."""
    if inspect.iscoroutinefunction(callback):
        result = await callback(argument)
    else:
        result = await asyncio.to_thread(callback, argument)
    if isinstance(result, OauthToken):
        return result
    if isinstance(result, str):
        return OauthToken(Secret(result))
    try:
        token, expires_at, *more = result
        extensions = more[1] if len(more) > 1 else {}
        return OauthToken(Secret(str(token)), float(expires_at), dict(extensions))
    except (TypeError, ValueError):
        raise InvalidSetting("oauth_cb has to return a token, or (token, expiry)") from None


def _extensions(text: str, options: dict[str, str]) -> dict[str, str]:
    found = {
        name.removeprefix("extension_"): value
        for name, value in options.items()
        if name.startswith("extension_")
    }
    for each in filter(None, text.split(",")):
        name, _, value = each.partition("=")
        found[name.strip()] = value.strip()
    return found


def _tls_settings(settings: SecuritySettings) -> TlsSettings:
    """Both dialects: Java's stores, librdkafka's files."""
    text, secret = settings.text, settings.secret
    java_keys, java_trust = "ssl.keystore.location", "ssl.truststore.location"
    certificate, authority = "ssl.certificate.location", "ssl.ca.location"
    return TlsSettings(
        keystore=Store(
            setting=certificate if text(certificate) else java_keys,
            location=text(certificate) or text(java_keys),
            key_location=text("ssl.key.location"),
            type=text("ssl.keystore.type"),
            password=secret("ssl.keystore.password"),
            key_password=secret("ssl.key.password"),
            certificates=text("ssl.certificate.pem") or text("ssl.keystore.certificate.chain"),
            key=secret("ssl.key.pem") or secret("ssl.keystore.key"),
        ),
        truststore=Store(
            setting=authority if text(authority) else java_trust,
            location=text(authority) or text(java_trust),
            type=text("ssl.truststore.type"),
            password=secret("ssl.truststore.password"),
            certificates=text("ssl.ca.pem") or text("ssl.truststore.certificates"),
        ),
        enabled_protocols=text("ssl.enabled.protocols", "TLSv1.2,TLSv1.3"),
        cipher_suites=text("ssl.cipher.suites"),
        endpoint_identification=text("ssl.endpoint.identification.algorithm", "https"),
        verify=text("enable.ssl.certificate.verification", "true").lower() != "false",
    )
