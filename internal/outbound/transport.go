package outbound

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	maxURLBytes       = 2048
	idleConnTimeout   = 30 * time.Second
	maxResponseHeader = 64 << 10
)

// ParseBaseURL checks an http or https URL with a host and at most a path, and
// returns it without its trailing slash. Its errors do not
// repeat the URL, which may hold a password by mistake.
func ParseBaseURL(raw string) (string, error) {
	if len(raw) > maxURLBytes {
		return "", fmt.Errorf("longer than %d bytes", maxURLBytes)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "", errors.New("not a URL")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("scheme must be http or https")
	case u.Hostname() == "":
		return "", errors.New("host is missing")
	case u.User != nil:
		return "", errors.New("userinfo is not allowed")
	case u.RawQuery != "" || u.ForceQuery:
		return "", errors.New("query is not allowed")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return "", errors.New("fragment is not allowed")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// TLSConfig returns what a client asks of a server's certificate: that one of the
// PEM certificates of the bundle vouches for it or, when that is empty, one of the
// system's.
func TLSConfig(bundle []byte) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(bundle) == 0 {
		return cfg, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, errors.New("no PEM certificate found")
	}
	cfg.RootCAs = roots
	return cfg, nil
}

// NewTransport returns one bounded pool of connections to one host. HTTP/1.1 only:
// one dead HTTP/2 connection would stall every call on it, and a bound on
// connections would not bound what waits. Send requests straight to the transport,
// which follows no redirect.
func NewTransport(tlsConfig *tls.Config, dialTimeout time.Duration, maxConns, maxIdle int) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		// It leaves loopback addresses alone (E.2.1).
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    dialTimeout,
		Protocols:              protocols,
		DisableCompression:     true,
		MaxConnsPerHost:        maxConns,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
}
