package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestOptionsValidate(t *testing.T) {
	cases := map[string]struct {
		arguments []string
		want      []string
	}{
		"the defaults are valid":                    {},
		"namespaces must be labels":                 {arguments: []string{"--namespace=Not_A_Label", "--default-namespace="}, want: []string{"--namespace", "--default-namespace"}},
		"an address has a port":                     {arguments: []string{"--listen-address=localhost"}, want: []string{"--listen-address"}},
		"a certificate has a key":                   {arguments: []string{"--tls-cert-file=tls.crt"}, want: []string{"--tls-key-file"}},
		"plain HTTP is for loopback":                {arguments: []string{"--insecure-http"}, want: []string{"--insecure-http"}},
		"plain HTTP on loopback is taken":           {arguments: []string{"--insecure-http", "--listen-address=127.0.0.1:1933"}},
		"plain HTTP has no certificate":             {arguments: []string{"--insecure-http", "--listen-address=[::1]:1933", "--tls-cert-file=a", "--tls-key-file=b"}, want: []string{"--insecure-http"}},
		"plain HTTP shows no aggregator":            {arguments: []string{"--insecure-http", "--listen-address=localhost:1933", "--aggregated"}, want: []string{"--aggregated"}},
		"insecure metrics are for loopback":         {arguments: []string{"--metrics-insecure"}, want: []string{"--metrics-insecure"}},
		"insecure metrics on loopback are taken":    {arguments: []string{"--metrics-insecure", "--metrics-bind-address=127.0.0.1:8080"}},
		"limits are positive":                       {arguments: []string{"--max-in-flight=0"}, want: []string{"--max-in-flight"}},
		"a drain has bounds":                        {arguments: []string{"--drain-timeout=1h"}, want: []string{"--drain-timeout"}},
		"every wrong flag is named":                 {arguments: []string{"--log-level=loud", "--log-format=xml"}, want: []string{"--log-level", "--log-format"}},
		"a host is no loopback for its name's sake": {arguments: []string{"--insecure-http", "--listen-address=localhost.example:1933"}, want: []string{"--insecure-http"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := &options{}
			flags := pflag.NewFlagSet("facade", pflag.ContinueOnError)
			o.addFlags(flags)
			if err := flags.Parse(tc.arguments); err != nil {
				t.Fatalf("parse: %v", err)
			}
			err := o.validate()
			if (err != nil) != (len(tc.want) > 0) {
				t.Fatalf("validate = %v, want faults with %v", err, tc.want)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("validate = %q, which does not name %s", err, want)
				}
			}
		})
	}
}
