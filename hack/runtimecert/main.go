// Command runtimecert makes the serving certificate of the built-in executor and
// prints it as the Secret that config/runtime mounts, for kubectl create -f -.
//
// The certificate is signed by an authority that exists only while this runs: its
// certificate is the Secret's ca.crt, which AgentRuntimes name as caBundle, and its
// key is written nowhere, so nothing else can ever be signed by it.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Names in config/runtime.
const (
	namespace = "agentruntime-system"
	service   = "agentruntime-runtime"
	secret    = "agentruntime-runtime-certificate"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, time.Now()); err != nil {
		fmt.Fprintf(os.Stderr, "runtimecert: %v\n", err)
		os.Exit(1)
	}
}

// run prints the Secret that the arguments describe on out.
func run(args []string, out io.Writer, now time.Time) error {
	host := service + "." + namespace + ".svc"
	flags := flag.NewFlagSet("runtimecert", flag.ContinueOnError)
	hosts := flags.String("hosts", host+","+host+".cluster.local", "names and addresses the certificate is for, with commas between")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pair, err := issue(strings.Split(*hosts, ","), now)
	if err != nil {
		return fmt.Errorf("make the certificate: %w", err)
	}
	text, err := yaml.Marshal(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secret},
		Type:       corev1.SecretTypeTLS,
		Data: map[string][]byte{
			corev1.ServiceAccountRootCAKey: pair.authority,
			corev1.TLSCertKey:              pair.certificate,
			corev1.TLSPrivateKeyKey:        pair.key,
		},
	})
	if err != nil {
		return fmt.Errorf("write the Secret: %w", err)
	}
	_, err = out.Write(text)
	return err
}
