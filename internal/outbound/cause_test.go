package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
)

func TestCause(t *testing.T) {
	t.Parallel()
	dial := func(cause error) error {
		address := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 43210}
		return &net.OpError{Op: "dial", Net: "tcp", Source: address, Addr: address, Err: cause}
	}
	call := func(code syscall.Errno) error { return dial(os.NewSyscallError("connect", code)) }
	verify := func(cause error) error { return &tls.CertificateVerificationError{Err: cause} }
	expired := x509.CertificateInvalidError{Cert: &x509.Certificate{}, Reason: x509.Expired, Detail: "of 10.0.0.5"}
	tests := map[string]struct {
		err  error
		want string
	}{
		"nobody listens":            {call(syscall.ECONNREFUSED), CauseRefused},
		"reset":                     {call(syscall.ECONNRESET), CauseReset},
		"a pipe that is broken":     {call(syscall.EPIPE), CauseReset},
		"aborted":                   {call(syscall.ECONNABORTED), CauseReset},
		"no route to the host":      {call(syscall.EHOSTUNREACH), CauseNoRoute},
		"no route to the network":   {call(syscall.ENETUNREACH), CauseNoRoute},
		"the dialer's timeout":      {dial(context.DeadlineExceeded), CauseTimedOut},
		"the system's timeout":      {call(syscall.ETIMEDOUT), CauseTimedOut},
		"closed":                    {dial(net.ErrClosed), CauseClosed},
		"closed while it was idle":  {errors.New("http: server closed idle connection"), CauseClosed},
		"the end of the stream":     {fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", io.EOF), CauseClosed},
		"an unknown name":           {dial(&net.DNSError{Name: "runtime", Server: "10.0.0.5:53", IsNotFound: true}), CauseUnknownName},
		"a slow name server":        {dial(&net.DNSError{Name: "runtime", Server: "10.0.0.5:53", IsTimeout: true}), CauseTimedOut},
		"a failing name server":     {dial(&net.DNSError{Name: "runtime", Server: "10.0.0.5:53", Err: "server misbehaving"}), CauseNameLookup},
		"an expired certificate":    {verify(expired), CauseExpired},
		"another invalid one":       {verify(x509.CertificateInvalidError{Reason: x509.NameConstraintsWithoutSANs}), CauseInvalidCert},
		"no authorities at all":     {verify(x509.SystemRootsError{}), CauseInvalidCert},
		"no common version":         {errors.New("tls: no supported versions satisfy MinVersion"), CauseHandshake},
		"an unreachable proxy":      {&net.OpError{Op: "proxyconnect", Net: "tcp", Err: call(syscall.ECONNREFUSED)}, CauseProxy},
		"what a proxy writes":       {errors.New("Forbidden by http://u:hunter22@10.0.0.5:3128"), CauseOther},
		"a URL in an unknown error": {&url.Error{Op: "Post", URL: "http://10.0.0.5:8080", Err: errors.New("odd")}, CauseOther},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Cause(tc.err); got != tc.want {
				t.Errorf("Cause(%v) = %q, want %q", tc.err, got, tc.want)
			}
		})
	}
}
