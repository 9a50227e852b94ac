package access_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/agentruntime/operator/internal/access"
)

func TestCredentialOf(t *testing.T) {
	long := strings.Repeat("k", access.MaxCredentialBytes)
	cases := map[string]struct {
		header      http.Header
		want        access.Secret
		wantReason  access.Reason
		wantMessage string
	}{
		"X-API-Key":                             {header: http.Header{"X-Api-Key": {"key-1"}}, want: "key-1"},
		"a bearer token":                        {header: http.Header{"Authorization": {"Bearer key-1"}}, want: "key-1"},
		"the scheme in any case":                {header: http.Header{"Authorization": {"bEARER  key-1 "}}, want: "key-1"},
		"X-API-Key wins":                        {header: http.Header{"X-Api-Key": {"key-1"}, "Authorization": {"Bearer key-2"}}, want: "key-1"},
		"the longest there may be":              {header: http.Header{"X-Api-Key": {long}}, want: access.Secret(long)},
		"none":                                  {header: http.Header{}, wantReason: access.ReasonMissing, wantMessage: "no credential"},
		"an empty X-API-Key is not passed by":   {header: http.Header{"X-Api-Key": {" "}, "Authorization": {"Bearer key-2"}}, wantReason: access.ReasonInvalid, wantMessage: "X-API-Key header is empty"},
		"two X-API-Keys":                        {header: http.Header{"X-Api-Key": {"key-1", "key-1"}}, wantReason: access.ReasonInvalid, wantMessage: "once"},
		"two Authorizations":                    {header: http.Header{"Authorization": {"Bearer key-1", "Bearer key-2"}}, wantReason: access.ReasonInvalid, wantMessage: "once"},
		"an empty Authorization":                {header: http.Header{"Authorization": {""}}, wantReason: access.ReasonInvalid, wantMessage: "scheme Bearer"},
		"a scheme alone":                        {header: http.Header{"Authorization": {"Bearer"}}, wantReason: access.ReasonInvalid, wantMessage: "empty"},
		"Basic":                                 {header: http.Header{"Authorization": {"Basic key-1"}}, wantReason: access.ReasonInvalid, wantMessage: "Basic authentication is not supported"},
		"another scheme":                        {header: http.Header{"Authorization": {"Digest key-1"}}, wantReason: access.ReasonInvalid, wantMessage: "scheme Bearer"},
		"one that is too long":                  {header: http.Header{"X-Api-Key": {long + "k"}}, wantReason: access.ReasonInvalid, wantMessage: "16 KiB"},
		"a control character":                   {header: http.Header{"X-Api-Key": {"key-1\x01"}}, wantReason: access.ReasonInvalid, wantMessage: "characters"},
		"a word after the token":                {header: http.Header{"Authorization": {"Bearer key-1 x"}}, wantReason: access.ReasonInvalid, wantMessage: "spaces"},
		"letters that no credential has":        {header: http.Header{"X-Api-Key": {"key-1é"}}, wantReason: access.ReasonInvalid, wantMessage: "characters"},
		"what only the front proxy may say":     {header: http.Header{"X-Remote-User": {"root"}}, wantReason: access.ReasonMissing, wantMessage: "no credential"},
		"a header there in name only":           {header: http.Header{"X-Api-Key": {}}, wantReason: access.ReasonInvalid, wantMessage: "once"},
		"an Authorization there in name only":   {header: http.Header{"Authorization": {}}, wantReason: access.ReasonInvalid, wantMessage: "once"},
		"a tab is no space between the two":     {header: http.Header{"Authorization": {"Bearer\tkey-1"}}, wantReason: access.ReasonInvalid, wantMessage: "scheme Bearer"},
		"a bearer token in X-API-Key's clothes": {header: http.Header{"X-Api-Key": {"Bearer key-1"}}, wantReason: access.ReasonInvalid, wantMessage: "spaces"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := access.CredentialOf(tc.header)
			if string(got) != string(tc.want) {
				t.Errorf("credential has %d bytes, want %d", len(got), len(tc.want))
			}
			if tc.wantReason == "" {
				if err != nil {
					t.Errorf("CredentialOf: %v", err)
				}
				return
			}
			unauthenticated, ok := errors.AsType[*access.UnauthenticatedError](err)
			if !ok || !errors.Is(err, access.ErrUnauthenticated) {
				t.Fatalf("CredentialOf: %v, want unauthenticated", err)
			}
			if unauthenticated.Reason != tc.wantReason || !strings.Contains(err.Error(), tc.wantMessage) {
				t.Errorf("error = %s: %s; want %s with %q", unauthenticated.Reason, err, tc.wantReason, tc.wantMessage)
			}
			if strings.Contains(err.Error(), "key-1") {
				t.Errorf("error %q shows the credential", err)
			}
		})
	}
}
