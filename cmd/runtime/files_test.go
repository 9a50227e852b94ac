package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

func TestTheTokenFileIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	opts := testOptions(t)
	opts.ListenAddress = "0.0.0.0:0"
	opts.GatewayTokenFile = path
	tokens, err := openTokenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write("two\n one \n\n")
	if err := tokens.reload(); err != nil || strings.Join(tokens.current(), " ") != "two one" {
		t.Errorf("two tokens: %v, %v", tokens.current(), err)
	}
	for name, text := range map[string]string{
		"an empty file":         "\n\n",
		"more than it may hold": strings.Repeat("x\n", maxTokens+1),
		"too big":               strings.Repeat("x", maxTokenFile+1),
	} {
		write(text)
		if err := tokens.reload(); err == nil || strings.Join(tokens.current(), " ") != "two one" {
			t.Errorf("%s: %v, %v", name, tokens.current(), err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := tokens.reload(); err == nil || len(tokens.current()) != 2 {
		t.Errorf("a file that is gone: %v, %v", tokens.current(), err)
	}
	if _, err := openTokenFile(path); err == nil {
		t.Error("a missing file opens")
	}

	write("one\n")
	e := start(t, opts)
	call := func(token string) int {
		code, _ := e.post(runtimeapi.PathStatus, `{"session_id":"x"}`, "X-API-Key", "k", "X-Gateway-Token", token)
		return code
	}
	e.url = strings.Replace(e.url, "[::]", "127.0.0.1", 1)
	if got := [2]int{call("one"), call("two")}; got != [2]int{404, 403} {
		t.Errorf("answers %v", got)
	}
}

// countingFile counts reads and fails as told.
type countingFile struct {
	reads int
	err   error
}

func (c *countingFile) reload() error {
	c.reads++
	return c.err
}

func TestTheWatcherReadsOnTimeAndOnSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &safeBuffer{}
		now := make(chan os.Signal)
		good, bad := &countingFile{}, &countingFile{err: os.ErrNotExist}
		w := &watcher{log: slog.New(slog.NewTextHandler(log, nil)), files: []interface{ reload() error }{good, bad}, now: now}
		ctx, cancel := context.WithCancel(t.Context())
		go w.run(ctx)
		time.Sleep(2*watchEvery + time.Second)
		synctest.Wait()
		if good.reads != 2 || strings.Count(log.String(), "can't be used") != 1 {
			t.Errorf("%d reads, log %s", good.reads, log)
		}
		now <- os.Interrupt
		synctest.Wait()
		if good.reads != 3 || bad.reads != 3 || strings.Count(log.String(), "can't be used") != 2 {
			t.Errorf("%d and %d reads, log %s", good.reads, bad.reads, log)
		}
		cancel()
		synctest.Wait()
	})
}

// writePair writes a self-signed certificate and its key.
func writePair(t *testing.T, certPath, keyPath, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		certPath: {Type: "CERTIFICATE", Bytes: der}, keyPath: {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	certPath, keyPath := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	writePair(t, certPath, keyPath, "first")
	cert, err := openCertificate(certPath, keyPath)
	if err != nil {
		t.Fatal(err)
	}
	first := cert.pair.Load()
	if err := cert.reload(); err != nil || cert.pair.Load() != first {
		t.Errorf("an unchanged pair was replaced, %v", err)
	}
	other := filepath.Join(dir, "other.key")
	writePair(t, certPath, other, "second")
	if err := cert.reload(); err == nil || cert.pair.Load() != first {
		t.Errorf("halves of two pairs were used, %v", err)
	}
	writePair(t, certPath, keyPath, "third")
	if err := cert.reload(); err != nil || cert.pair.Load() == first {
		t.Errorf("a new pair was not used, %v", err)
	}
	if _, err := openCertificate(certPath, filepath.Join(dir, "missing")); err == nil {
		t.Error("a missing key opens")
	}
}
