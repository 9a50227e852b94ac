package outbound

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// What is said of a call without a whole answer. The texts end where users read
// them: they hold no address, which is of no use there, and stay the same from one
// try to the next, so that a retry writes nothing new.
const (
	CauseRefused     = "connection refused"
	CauseReset       = "connection reset"
	CauseClosed      = "the connection closed before the whole answer came"
	CauseTimedOut    = "timed out"
	CauseNoRoute     = "no route to the host"
	CauseUnknownName = "name not found"
	CauseNameLookup  = "the name lookup went wrong"
	CauseUntrusted   = "TLS: certificate not trusted"
	CauseExpired     = "TLS: certificate expired or not valid yet"
	CauseWrongName   = "TLS: certificate for another name"
	CauseInvalidCert = "TLS: certificate not valid"
	CauseHandshake   = "TLS: the handshake went wrong"
	CauseNotTLS      = "TLS: the server does not speak it"
	CauseProxy       = "the proxy made no connection"
	CauseNotHTTP     = "the answer is not valid HTTP"
	CauseHeaders     = "the answer's headers are too large"
	CauseOther       = "the connection went wrong"
)

// Cause reduces what stopped a call to one of the causes.
func Cause(err error) string {
	for _, reduce := range []func(error) string{proxyCause, lookupCause, tlsCause, connectionCause, textCause} {
		if cause := reduce(err); cause != "" {
			return cause
		}
	}
	return CauseOther
}

func proxyCause(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "proxyconnect" {
		return CauseProxy
	}
	return ""
}

func lookupCause(err error) string {
	lookup, ok := errors.AsType[*net.DNSError](err)
	switch {
	case !ok:
		return ""
	case lookup.IsNotFound:
		return CauseUnknownName
	case lookup.IsTimeout:
		return CauseTimedOut
	}
	return CauseNameLookup
}

func tlsCause(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return CauseUntrusted
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return CauseWrongName
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return CauseExpired
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return CauseInvalidCert
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return CauseNotTLS
	}
	// An alert of the peer has no type of its own.
	if op, ok := errors.AsType[*net.OpError](err); ok && (op.Op == "remote error" || op.Op == "local error") {
		return CauseHandshake
	}
	return ""
}

func connectionCause(err error) string {
	netErr, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return CauseRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		return CauseReset
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return CauseNoRoute
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return CauseClosed
	case isNet && netErr.Timeout():
		return CauseTimedOut
	}
	return ""
}

// textCause knows what net/http gives no type to. A text that it does not know is
// not shown, since a peer may have written it.
func textCause(err error) string {
	text := err.Error()
	for _, known := range []struct{ part, cause string }{
		{"server closed idle connection", CauseClosed},
		{"response headers exceeded", CauseHeaders},
		{"malformed", CauseNotHTTP},
		{"chunk", CauseNotHTTP},
		{"transport connection broken", CauseNotHTTP},
		{"tls: ", CauseHandshake},
	} {
		if strings.Contains(text, known.part) {
			return known.cause
		}
	}
	return ""
}
