package v1alpha1_test

import (
	"testing"

	"github.com/agentruntime/operator/api/v1alpha1"
)

func TestIsSecretArg(t *testing.T) {
	cases := map[string]bool{
		"api_key": true, "user_key": true, "API_Key": true, "user_\u212aey": true,
		"": false, "apikey": false, "api_key ": false, "my_api_key": false, "model_name": false,
	}
	for name, want := range cases {
		if got := v1alpha1.IsSecretArg(name); got != want {
			t.Errorf("IsSecretArg(%q) = %t", name, got)
		}
	}
}
