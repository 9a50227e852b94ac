package frontproxy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/access/frontproxy"
)

// What needs the API server's ConfigMap is checked in test/envtest/access.
func TestNobodyIsKnownBeforeTheConfigMap(t *testing.T) {
	proxy, err := frontproxy.New(fake.NewClientset(), "ops")
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if err := proxy.Ready(); err == nil || !strings.Contains(err.Error(), "requestheader-client-ca-file") {
		t.Errorf("Ready: %v, want what is missing", err)
	}
	if _, ok := proxy.ClientCAs(); ok {
		t.Error("there are CAs")
	}
	r := httptest.NewRequest(http.MethodGet, "/apis", http.NoBody)
	r.Header.Set("X-Remote-User", "alice")
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	if caller, err := proxy.Authenticate(r); !errors.Is(err, access.ErrUnavailable) {
		t.Errorf("Authenticate = %+v, %v; want unavailable", caller, err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	proxy, err := frontproxy.New(fake.NewClientset(), "ops")
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- proxy.Run(ctx) }()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}
