package facade_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/agentruntime/operator/test/stack"
)

// person is a ServiceAccount that comes through every door as the same user.
type person struct {
	name  string
	token string
	key   string
}

func (p *person) username() string { return "system:serviceaccount:" + team + ":" + p.name }

// door is one way to the REST API.
type door struct {
	name string
	// base is what stands before the routes' own paths; path maps a direct path to
	// this door's.
	base   string
	path   func(direct string) string
	client func() *http.Client
	// show adds the person's credential to a request.
	show func(r *http.Request, p *person)
}

// The three doors, once the stack runs.
var (
	direct     = &door{name: "direct"}
	aggregated = &door{name: "aggregated"}
	byKey      = &door{name: "API key"}
	doors      = []*door{direct, aggregated, byKey}
)

func prepareDoors(ctx SpecContext) {
	GinkgoHelper()
	trusting, err := plane.FacadeClient(ctx)
	Expect(err).NotTo(HaveOccurred())
	bearer := func(r *http.Request, p *person) { r.Header.Set("Authorization", "Bearer "+p.token) }
	plain := func(path string) string { return path }
	direct.base, direct.path, direct.show = plane.FacadeURL(), plain, bearer
	direct.client = func() *http.Client { return trusting }
	byKey.base, byKey.path = plane.FacadeURL(), plain
	byKey.client = direct.client
	byKey.show = func(r *http.Request, p *person) { r.Header.Set("X-API-Key", p.key) }

	config := rest.AnonymousClientConfig(plane.Config)
	transport, err := rest.TransportFor(config)
	Expect(err).NotTo(HaveOccurred())
	aggregated.base, aggregated.show = strings.TrimSuffix(plane.Config.Host, "/"), bearer
	aggregated.client = func() *http.Client { return &http.Client{Transport: transport} }
	aggregated.path = aggregatedPath
	waitForAggregation(ctx)
}

// aggregatedPath maps a route of the facade's own listener to the aggregated API.
func aggregatedPath(path string) string {
	rest := strings.TrimPrefix(path, "/api/v1")
	rest = strings.Replace(rest, "/events", "/log", 1)
	rest = strings.Replace(rest, "/compile/submissions/", "/submissions/", 1)
	return "/apis/compile.agentruntime.dev/v1/namespaces/" + team + rest
}

// waitForAggregation waits until the API server has found the facade.
func waitForAggregation(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		response, err := get(ctx, httpAdmin(), strings.TrimSuffix(plane.Config.Host, "/")+"/apis/compile.agentruntime.dev/v1")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.status).To(Equal(http.StatusOK), response.text())
	}).WithTimeout(60 * 1e9).Should(Succeed())
}

func httpAdmin() *http.Client {
	GinkgoHelper()
	client, err := rest.HTTPClientFor(plane.Config)
	Expect(err).NotTo(HaveOccurred())
	return client
}

// newPerson makes a ServiceAccount with roles in the team's namespace, a token and
// an API key.
func newPerson(ctx SpecContext, name string, roles ...string) *person {
	GinkgoHelper()
	p := &person{name: name}
	Expect(plane.AddServiceAccount(ctx, team, name)).To(Succeed())
	Expect(plane.Bind(ctx, team, stack.AccountSubject(team, name), roles...)).To(Succeed())
	token, err := plane.ServiceAccountToken(ctx, team, name)
	Expect(err).NotTo(HaveOccurred())
	p.token = token
	p.key = newKey(ctx, "--as-user", p.username())
	return p
}

// newKey has arctl make an API key for the team's namespace.
func newKey(ctx context.Context, arguments ...string) string {
	GinkgoHelper()
	out, err := arctl(ctx, append([]string{"apikey", "create", "--namespace", team}, arguments...)...)
	Expect(err).NotTo(HaveOccurred(), out)
	for field := range strings.FieldsSeq(out) {
		if strings.HasPrefix(field, "sk-ar-") {
			return field
		}
	}
	Fail("arctl printed no key: " + out)
	return ""
}

// arctl runs the real arctl as a cluster admin.
func arctl(ctx context.Context, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, plane.Binary("arctl"), arguments...)
	command.Env = append(command.Environ(), "KUBECONFIG="+plane.Admin)
	out, err := command.CombinedOutput()
	return string(out), err
}

// answer is a whole HTTP response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) text() string { return string(a.body) }

// result decodes the envelope's result.
func (a *answer) result(into any) {
	GinkgoHelper()
	var envelope struct {
		Status string          `json:"status"`
		Result json.RawMessage `json:"result"`
	}
	Expect(json.Unmarshal(a.body, &envelope)).To(Succeed(), a.text())
	Expect(envelope.Status).To(Equal("ok"), a.text())
	Expect(json.Unmarshal(envelope.Result, into)).To(Succeed(), a.text())
}

func (a *answer) record() map[string]any {
	GinkgoHelper()
	var record map[string]any
	a.result(&record)
	return record
}

// failure is the envelope's error.
type failure struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
}

func (a *answer) failure() failure {
	GinkgoHelper()
	var envelope struct {
		Status string  `json:"status"`
		Error  failure `json:"error"`
	}
	Expect(json.Unmarshal(a.body, &envelope)).To(Succeed(), a.text())
	Expect(envelope.Status).To(Equal("error"), a.text())
	return envelope.Error
}

// as sends a request as somebody and reads the whole answer.
func (d *door) as(ctx context.Context, p *person, method, path, body string, headers ...string) *answer {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, method, d.base+d.path(path), reader(body))
	Expect(err).NotTo(HaveOccurred())
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if p != nil {
		d.show(request, p)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	got, err := do(d.client(), request)
	Expect(err).NotTo(HaveOccurred())
	return got
}

func reader(body string) io.Reader {
	if body == "" {
		return http.NoBody
	}
	return strings.NewReader(body)
}

func get(ctx context.Context, client *http.Client, url string) (*answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	return do(client, request)
}

func do(client *http.Client, request *http.Request) (*answer, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := io.Copy(&body, io.LimitReader(response.Body, 8<<20)); err != nil {
		return nil, err
	}
	return &answer{status: response.StatusCode, header: response.Header, body: body.Bytes()}, nil
}

// insecure talks to the facade like a stranger who checks no certificate.
func insecure() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
}
