package access_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/access/frontproxy"
)

var _ = Describe("The front proxy", Ordered, func() {
	var (
		server *httptest.Server
		proxy  *frontproxy.Authenticator
		answer = make(chan outcome, 1)
	)

	BeforeAll(func() {
		var err error
		proxy, err = frontproxy.New(clients, "agentruntime-system")
		Expect(err).NotTo(HaveOccurred())
		Expect(proxy.Ready()).NotTo(Succeed())
		_, err = proxy.Authenticate(request("x"))
		Expect(err).To(MatchError(access.ErrUnavailable))

		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- proxy.Run(running) }()
		DeferCleanup(func() {
			stop()
			Eventually(ended).Should(Receive(Succeed()))
		})
		Eventually(proxy.Ready).Should(Succeed())

		server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			caller, err := proxy.Authenticate(r)
			if err == nil {
				// A stream's caller is looked at again.
				caller, err = proxy.Authenticate(r)
			}
			answer <- outcome{caller, err}
		}))
		server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
		server.StartTLS()
		DeferCleanup(server.Close)
	})

	// send makes a request that says it is alice's, with the certificates.
	send := func(header http.Header, certificates ...tls.Certificate) outcome {
		GinkgoHelper()
		base, ok := server.Client().Transport.(*http.Transport)
		Expect(ok).To(BeTrue())
		transport := base.Clone()
		transport.TLSClientConfig.Certificates = certificates
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
		Expect(err).NotTo(HaveOccurred())
		r.Header = header
		response, err := (&http.Client{Transport: transport}).Do(r)
		Expect(err).NotTo(HaveOccurred())
		Expect(response.Body.Close()).To(Succeed())
		return <-answer
	}
	alice := func() http.Header {
		return http.Header{
			"X-Remote-User": {"alice"}, "X-Remote-Uid": {"u-1"}, "X-Remote-Group": {"docs", "system:authenticated"},
			"X-Remote-Extra-Example.com%2fscopes": {"a", "b"},
		}
	}

	It("names the user, with its certificate", func() {
		got := send(alice(), proxyCA.client(proxyName))
		Expect(got.err).NotTo(HaveOccurred())
		Expect(got.caller.Method).To(Equal(access.MethodFrontProxy))
		Expect(got.caller.User.Username).To(Equal("alice"))
		Expect(got.caller.User.UID).To(Equal("u-1"))
		Expect(got.caller.User.Groups).To(Equal([]string{"docs", "system:authenticated"}))
		Expect(got.caller.User.Extra).To(HaveKeyWithValue("example.com/scopes", ConsistOf("a", "b")))
		_, ok := proxy.ClientCAs()
		Expect(ok).To(BeTrue())
	})

	It("is not believed without its certificate", func() {
		Expect(reasonOf(send(alice()).err)).To(Equal(access.ReasonMissing))
		other := newAuthority("front-proxy-ca")
		Expect(reasonOf(send(alice(), other.client(proxyName)).err)).To(Equal(access.ReasonInvalid))
		Expect(reasonOf(send(alice(), proxyCA.client("somebody")).err)).To(Equal(access.ReasonInvalid))
	})

	It("must name somebody who may act", func() {
		certificate := proxyCA.client(proxyName)
		Expect(reasonOf(send(http.Header{}, certificate).err)).To(Equal(access.ReasonInvalid))
		admin := alice()
		admin.Add("X-Remote-Group", "system:masters")
		Expect(send(admin, certificate).err).To(MatchError(access.ErrForbidden))
		nobody := http.Header{"X-Remote-User": {"system:anonymous"}, "X-Remote-Group": {"system:unauthenticated"}}
		Expect(send(nobody, certificate).err).To(MatchError(access.ErrUnauthenticated))
	})
})

// outcome is what an authenticator said.
type outcome struct {
	caller access.Caller
	err    error
}
