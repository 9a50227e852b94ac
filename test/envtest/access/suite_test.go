// Package access_test checks against a real API server who is let in, as whom, and
// what the operator may do as them.
package access_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	testenv "github.com/agentruntime/operator/test/envtest"
)

const proxyName = "front-proxy-client"

var (
	env     *testenv.Environment
	k8s     client.Client
	clients kubernetes.Interface
	ctx     = context.Background()
	proxyCA authority
)

func TestAccess(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Access")
}

var _ = BeforeSuite(func() {
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	proxyCA = newAuthority("front-proxy-ca")
	path := filepath.Join(GinkgoT().TempDir(), "front-proxy-ca.crt")
	Expect(os.WriteFile(path, proxyCA.pem(), 0o600)).To(Succeed())

	var err error
	env, err = testenv.Start(testenv.Options{APIServerArgs: map[string]string{
		"requestheader-client-ca-file":       path,
		"requestheader-allowed-names":        proxyName,
		"requestheader-username-headers":     "X-Remote-User",
		"requestheader-uid-headers":          "X-Remote-Uid",
		"requestheader-group-headers":        "X-Remote-Group",
		"requestheader-extra-headers-prefix": "X-Remote-Extra-",
	}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(env.Stop()).To(Succeed()) })
	k8s, err = client.New(env.Config, client.Options{Scheme: testenv.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	clients, err = kubernetes.NewForConfig(env.Config)
	Expect(err).NotTo(HaveOccurred())
})

func newNamespace() string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}
	Expect(k8s.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

func newServiceAccount(namespace, name string) {
	GinkgoHelper()
	Expect(k8s.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})).To(Succeed())
}

// tokenOf makes a token of a ServiceAccount, for the audiences or else the API
// server's.
func tokenOf(namespace, name string, audiences ...string) string {
	GinkgoHelper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	answer, err := clients.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return answer.Status.Token
}

// authority is a CA that signs client certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(name string) authority {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	return authority{certificate: sign(template, template, key, key), key: key}
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// client makes a client certificate of that name.
func (a authority) client(name string) tls.Certificate {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	certificate := sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.certificate, key, a.key)
	return tls.Certificate{Certificate: [][]byte{certificate.Raw}, PrivateKey: key}
}

func sign(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	GinkgoHelper()
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	Expect(err).NotTo(HaveOccurred())
	certificate, err := x509.ParseCertificate(raw)
	Expect(err).NotTo(HaveOccurred())
	return certificate
}
