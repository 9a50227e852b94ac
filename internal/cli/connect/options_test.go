package connect

import (
	"testing"
	"time"
)

func TestComplete(t *testing.T) {
	env := Environment{Server: "https://env", APIKey: "env-key"}
	tests := map[string]struct {
		options    Options
		wantServer string
		wantKey    string
		wantErr    bool
	}{
		"the environment fills what is not set":         {Options{}, "https://env", "env-key", false},
		"a flag wins over the environment":              {Options{Server: "https://flag", APIKey: "k"}, "https://flag", "k", false},
		"a kubeconfig's flag wins over the environment": {Options{Context: "c"}, "", "", false},
		"a key file wins over the environment's key":    {Options{APIKeyFile: "f"}, "https://env", "", false},
		"a server and a kubeconfig":                     {Options{Server: "https://flag", Kubeconfig: "k"}, "https://flag", "", true},
		"a key for a kubeconfig":                        {Options{Context: "c", APIKey: "k"}, "", "k", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			options := test.options
			options.RequestTimeout = time.Second
			err := options.Complete(env)
			if (err != nil) != test.wantErr || options.Server != test.wantServer || options.APIKey != test.wantKey {
				t.Errorf("server %q, key %q, error %v", options.Server, options.APIKey, err)
			}
		})
	}
}

func TestServer(t *testing.T) {
	tests := map[string]struct {
		server   string
		insecure bool
		want     bool
	}{
		"https":                      {"https://facade.example.com:1933/base/", false, true},
		"plain HTTP on this machine": {"http://localhost:1933", false, true},
		"plain HTTP on loopback":     {"http://[::1]:1933", false, true},
		"plain HTTP elsewhere":       {"http://10.0.0.1", false, false},
		"plain HTTP, accepted":       {"http://10.0.0.1", true, true},
		"no scheme":                  {"facade:1933", false, false},
		"another scheme":             {"ftp://facade", false, false},
		"a password in the URL":      {"https://u:p@facade", false, false},
		"a query":                    {"https://facade?x=1", false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			options := Options{Server: test.server, InsecureSkipTLSVerify: test.insecure}
			if _, err := options.server(); (err == nil) != test.want {
				t.Errorf("%v", err)
			}
		})
	}
}
