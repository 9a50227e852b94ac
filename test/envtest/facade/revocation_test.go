package facade_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/test/stack"
)

var _ = Describe("Credentials", func() {
	It("lets a token in no more within 20 s of its ServiceAccount's end, and ends its streams", func(ctx SpecContext) {
		p := newPerson(ctx, "short-lived", "agentruntime-user", "agentruntime-runtime-user")
		id := createSlow(ctx, direct, p)
		open := openStream(ctx, direct, p, id)
		Expect(open.next(ctx)).To(Equal("task"))
		Expect(plane.Client.Delete(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: p.name}})).To(Succeed())
		began := time.Now()
		Eventually(func(g Gomega) {
			got := direct.as(ctx, p, "GET", "/api/v1/tasks/"+id, "")
			g.Expect(got.status).To(Equal(http.StatusUnauthorized), got.text())
			g.Expect(got.failure().Code).To(Equal("UNAUTHENTICATED"))
		}).WithTimeout(revocation).Should(Succeed())
		Eventually(open.ended).WithTimeout(revocation - time.Since(began)).Should(BeClosed())
	})

	It("lets an API key in no more within 20 s of its revocation, and ends its streams", func(ctx SpecContext) {
		p := newPerson(ctx, "keyholder", "agentruntime-user", "agentruntime-runtime-user")
		id := createSlow(ctx, byKey, p)
		open := openStream(ctx, byKey, p, id)
		Expect(open.next(ctx)).To(Equal("task"))
		out, err := arctl(ctx, "apikey", "list", "-o", "name")
		Expect(err).NotTo(HaveOccurred(), out)
		var secrets corev1.SecretList
		Expect(plane.Client.List(ctx, &secrets, client.InNamespace(stack.Namespace), client.MatchingLabels{"agentruntime.dev/api-key": "true"})).To(Succeed())
		name := ""
		for _, secret := range secrets.Items {
			if string(secret.Data["username"]) == p.username() {
				name = secret.Name
			}
		}
		Expect(name).NotTo(BeEmpty())
		out, err = arctl(ctx, "apikey", "revoke", name)
		Expect(err).NotTo(HaveOccurred(), out)
		began := time.Now()
		Eventually(func(g Gomega) {
			g.Expect(byKey.as(ctx, p, "GET", "/api/v1/tasks/"+id, "").status).To(Equal(http.StatusUnauthorized))
		}).WithTimeout(revocation).Should(Succeed())
		Eventually(open.ended).WithTimeout(revocation - time.Since(began)).Should(BeClosed())
	})

	It("keeps an API key in no Secret in clear, and fixes its namespace", func(ctx SpecContext) {
		p := newPerson(ctx, "fixed", "agentruntime-user", "agentruntime-runtime-user")
		var secrets corev1.SecretList
		Expect(plane.Client.List(ctx, &secrets, client.InNamespace(stack.Namespace))).To(Succeed())
		for _, secret := range secrets.Items {
			for _, value := range secret.Data {
				Expect(string(value)).NotTo(ContainSubstring(p.key))
			}
		}
		got := byKey.as(ctx, p, "GET", "/api/v1/tasks", "", "X-OpenViking-Account", "default")
		Expect(got.status).To(Equal(http.StatusOK), "account headers are ignored: "+got.text())
		got = byKey.as(ctx, p, "GET", "/namespaces/default/api/v1/tasks", "")
		Expect(got.status).To(Equal(http.StatusForbidden), got.text())
	})

	DescribeTable("refuses", func(ctx SpecContext, header, value string) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, plane.FacadeURL()+"/api/v1/tasks", http.NoBody)
		Expect(err).NotTo(HaveOccurred())
		if header != "" {
			request.Header.Set(header, value)
		}
		got, err := do(direct.client(), request)
		Expect(err).NotTo(HaveOccurred())
		Expect(got.status).To(Equal(http.StatusUnauthorized), got.text())
		Expect(got.failure().Code).To(Equal("UNAUTHENTICATED"))
		Expect(got.header.Get("X-Request-ID")).NotTo(BeEmpty())
		if value != "" {
			Expect(got.text()).NotTo(ContainSubstring(value))
		}
	},
		Entry("nobody", "", ""),
		Entry("an unknown key", "X-API-Key", "sk-ar-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
		Entry("a key of another shape", "X-API-Key", "your-key"),
		Entry("a token of nobody", "Authorization", "Bearer eyJhbGciOiJub25lIn0.e30."),
		Entry("a password", "Authorization", "Basic YWxpY2U6c2VjcmV0"),
	)

	It("makes no API key for system:masters and its kind", func(ctx SpecContext) {
		for _, arguments := range [][]string{
			{"--as-user", "root", "--as-group", "system:masters"},
			{"--as-user", "system:node:a"},
			{"--as-user", "system:kube-controller-manager"},
			{"--as-user", "system:serviceaccount:agentruntime-system:agentruntime-manager"},
		} {
			out, err := arctl(ctx, append([]string{"apikey", "create", "--namespace", team}, arguments...)...)
			Expect(err).To(HaveOccurred(), strings.Join(arguments, " "))
			Expect(out).NotTo(ContainSubstring("sk-ar-"))
		}
	})
})

var _ = Describe("Headers", func() {
	It("never make anybody system:masters, or anybody else", func(ctx SpecContext) {
		p := newPerson(ctx, "spoofer", "agentruntime-user", "agentruntime-runtime-user")
		victim := newPerson(ctx, "victim", "agentruntime-user", "agentruntime-runtime-user")
		id := createSlow(ctx, direct, victim)
		spoofs := [][]string{
			{"X-Remote-User", victim.username(), "X-Remote-Group", "system:masters"},
			{"Impersonate-User", victim.username(), "Impersonate-Group", "system:masters"},
			{"X-OpenViking-User", victim.username(), "X-OpenViking-Role", "root"},
			{"X-Forwarded-User", victim.username()},
			{"X-OpenViking-Actor-Peer", "victim", "X-OpenViking-Agent", "victim"},
		}
		for _, door := range doors {
			for _, headers := range spoofs {
				if door == aggregated && headers[0] == "Impersonate-User" {
					continue // The API server itself refuses these before the facade hears of them.
				}
				for _, call := range []struct{ method, suffix string }{{"GET", ""}, {"POST", "/cancel"}} {
					got := door.as(ctx, p, call.method, "/api/v1/tasks/"+id+call.suffix, "", headers...)
					Expect(got.status).To(Equal(http.StatusNotFound), door.name+" "+strings.Join(headers, " ")+": "+got.text())
				}
			}
		}
		created := direct.as(ctx, p, "POST", "/api/v1/compile", request("viking://resources/spoof"), "Impersonate-User", victim.username(), "Impersonate-Group", "system:masters", "X-Remote-User", victim.username())
		Expect(created.status).To(Equal(http.StatusAccepted), created.text())
		Expect(taskOf(ctx, created).Spec.Requester.Username).To(Equal(p.username()))
		Expect(taskOf(ctx, created).Spec.Requester.Groups).NotTo(ContainElement("system:masters"))
	})

	It("are no way in without the front proxy's certificate", func(ctx SpecContext) {
		for _, c := range []*http.Client{insecure(), direct.client()} {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, plane.FacadeURL()+aggregatedPath("/api/v1/tasks"), http.NoBody)
			Expect(err).NotTo(HaveOccurred())
			request.Header.Set("X-Remote-User", "root")
			request.Header.Set("X-Remote-Group", "system:masters")
			got, err := do(c, request)
			Expect(err).NotTo(HaveOccurred())
			Expect(got.status).To(Equal(http.StatusUnauthorized), got.text())
		}
	})
})

var _ = Describe("Secrets", func() {
	It("stand in no log and no metric", func(ctx SpecContext) {
		p := newPerson(ctx, "discreet", "agentruntime-user", "agentruntime-runtime-user")
		const secret = "s3cr3t-of-an-argument"
		body := `{"from":["viking://resources/docs"],"to":"viking://resources/discreet","skill":"viking://agent/skills/wiki","args":{"api_key":"` + secret + `","depth":12345678901234567890}}`
		created := byKey.as(ctx, p, "POST", "/api/v1/compile", body)
		Expect(created.status).To(Equal(http.StatusAccepted), created.text())
		Expect(created.text()).NotTo(ContainSubstring(secret))
		Expect(created.text()).To(ContainSubstring("12345678901234567890"))
		id, _ := created.record()["task_id"].(string)
		ended := byKey.as(ctx, p, "GET", "/api/v1/tasks/"+id+"?wait=20s", "")
		Expect(ended.text()).NotTo(ContainSubstring(secret))
		for _, name := range []string{"facade", "manager"} {
			log, err := os.ReadFile(filepath.Clean(plane.Log(name)))
			Expect(err).NotTo(HaveOccurred())
			for _, word := range []string{secret, p.key, p.token} {
				Expect(strings.Contains(string(log), word)).To(BeFalse(), "the log of the "+name)
			}
		}
		Eventually(func(g Gomega) {
			g.Expect(taskOf(ctx, created).Spec.SealedCredentials).To(BeNil(), "erased when the task has ended")
		}).Should(Succeed())
	})
})
