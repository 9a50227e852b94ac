package executor

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// What is said of a call without a whole answer. The texts end in the status of
// tasks: they hold no address, which is of no use to a task's user, and stay the
// same from one try to the next, so that a retry writes nothing new.
const (
	causeRefused     = "connection refused"
	causeReset       = "connection reset"
	causeClosed      = "the connection closed before the whole answer came"
	causeTimedOut    = "timed out"
	causeNoRoute     = "no route to the host"
	causeUnknownName = "name not found"
	causeNameLookup  = "the name lookup went wrong"
	causeUntrusted   = "TLS: certificate not trusted"
	causeExpired     = "TLS: certificate expired or not valid yet"
	causeWrongName   = "TLS: certificate for another name"
	causeInvalidCert = "TLS: certificate not valid"
	causeHandshake   = "TLS: the handshake went wrong"
	causeNotTLS      = "TLS: the server does not speak it"
	causeProxy       = "the proxy made no connection"
	causeNotHTTP     = "the answer is not valid HTTP"
	causeHeaders     = "the answer's headers are too large"
	causeOther       = "the connection went wrong"
)

// networkCause reduces what stopped a call to one of the causes.
func networkCause(err error) string {
	for _, reduce := range []func(error) string{proxyCause, lookupCause, tlsCause, connectionCause, textCause} {
		if cause := reduce(err); cause != "" {
			return cause
		}
	}
	return causeOther
}

func proxyCause(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "proxyconnect" {
		return causeProxy
	}
	return ""
}

func lookupCause(err error) string {
	lookup, ok := errors.AsType[*net.DNSError](err)
	switch {
	case !ok:
		return ""
	case lookup.IsNotFound:
		return causeUnknownName
	case lookup.IsTimeout:
		return causeTimedOut
	}
	return causeNameLookup
}

func tlsCause(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return causeUntrusted
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return causeWrongName
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return causeExpired
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return causeInvalidCert
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return causeNotTLS
	}
	// An alert of the peer has no type of its own.
	if op, ok := errors.AsType[*net.OpError](err); ok && (op.Op == "remote error" || op.Op == "local error") {
		return causeHandshake
	}
	return ""
}

func connectionCause(err error) string {
	netErr, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return causeRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		return causeReset
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return causeNoRoute
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return causeClosed
	case isNet && netErr.Timeout():
		return causeTimedOut
	}
	return ""
}

// textCause knows what net/http gives no type to. A text that it does not know is
// not shown, since a peer may have written it.
func textCause(err error) string {
	text := err.Error()
	for _, known := range []struct{ part, cause string }{
		{"server closed idle connection", causeClosed},
		{"response headers exceeded", causeHeaders},
		{"malformed", causeNotHTTP},
		{"chunk", causeNotHTTP},
		{"transport connection broken", causeNotHTTP},
		{"tls: ", causeHandshake},
	} {
		if strings.Contains(text, known.part) {
			return known.cause
		}
	}
	return ""
}
