// Package secrets_test checks what the operator keeps in Secrets of its own, and
// in the objects that get its authorities, against a real API server.
package secrets_test

import (
	"context"
	"encoding/base64"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/internal/sealed"
	"github.com/agentruntime/operator/internal/sealed/ringsecret"
	"github.com/agentruntime/operator/internal/servingcert"
	testenv "github.com/agentruntime/operator/test/envtest"
)

var (
	env *testenv.Environment
	k8s client.Client
	ctx = context.Background()
)

func TestSecrets(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Secrets of the operator")
}

var _ = BeforeSuite(func() {
	var err error
	env, err = testenv.Start(testenv.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(env.Stop()).To(Succeed()) })
	k8s, err = client.New(env.Config, client.Options{Scheme: testenv.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
})

func newNamespace() string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}
	Expect(k8s.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

func newSecret(namespace, name string, secretType corev1.SecretType, data map[string][]byte) {
	GinkgoHelper()
	Expect(k8s.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: secretType, Data: data,
	})).To(Succeed())
}

var _ = Describe("The key ring's Secret", func() {
	It("is filled once, by whoever comes first, and read from then on", func() {
		namespace := newNamespace()
		newSecret(namespace, ringsecret.Name, ringsecret.Type, nil)
		rings := make([]*sealed.KeyRing, 8)
		var group sync.WaitGroup
		for i := range rings {
			group.Go(func() {
				defer GinkgoRecover()
				ring, err := ringsecret.Ensure(ctx, k8s, k8s, namespace)
				Expect(err).NotTo(HaveOccurred())
				rings[i] = ring
			})
		}
		group.Wait()
		binding := sealed.Binding{Kind: "Test", Name: "body", Field: "data"}
		box, err := rings[0].Seal([]byte("body"), binding)
		Expect(err).NotTo(HaveOccurred())
		for _, ring := range rings {
			Expect(ring.Open(box, binding)).To(Equal([]byte("body")))
		}
	})

	It("gets the name key that an older one lacks, once, and keeps its other keys", func() {
		namespace := newNamespace()
		data := sealed.GenerateKeyRingData()
		delete(data, sealed.NamesEntry)
		newSecret(namespace, ringsecret.Name, ringsecret.Type, data)
		_, err := ringsecret.Load(ctx, k8s, namespace)
		Expect(err).To(MatchError(ContainSubstring("the manager adds it when it starts")))

		ring, err := ringsecret.Ensure(ctx, k8s, k8s, namespace)
		Expect(err).NotTo(HaveOccurred())
		Expect(ring.PrimaryID()).To(Equal(string(data[sealed.PrimaryEntry])))
		Expect(ring.HasNames()).To(BeTrue())
		for _, again := range []func() (*sealed.KeyRing, error){
			func() (*sealed.KeyRing, error) { return ringsecret.Ensure(ctx, k8s, k8s, namespace) },
			func() (*sealed.KeyRing, error) { return ringsecret.Load(ctx, k8s, namespace) },
		} {
			other, err := again()
			Expect(err).NotTo(HaveOccurred())
			Expect(other.Name("spec", "x")).To(Equal(ring.Name("spec", "x")))
		}
	})

	It("is not filled by a reader", func() {
		namespace := newNamespace()
		newSecret(namespace, ringsecret.Name, ringsecret.Type, nil)
		_, err := ringsecret.Load(ctx, k8s, namespace)
		Expect(err).To(MatchError(ContainSubstring("the manager fills it when it starts")))
	})

	DescribeTable("is never replaced", func(secretType corev1.SecretType, data map[string][]byte, message string) {
		namespace := newNamespace()
		if secretType != "" {
			newSecret(namespace, ringsecret.Name, secretType, data)
		}
		_, err := ringsecret.Ensure(ctx, k8s, k8s, namespace)
		Expect(err).To(MatchError(ContainSubstring(message)))
		if secretType != "" {
			var secret corev1.Secret
			Expect(k8s.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ringsecret.Name}, &secret)).To(Succeed())
			Expect(secret.Data).To(Equal(data))
		}
	},
		Entry("when it is missing", corev1.SecretType(""), nil, "restore it from a backup"),
		Entry("when it is of another type", corev1.SecretTypeOpaque, map[string][]byte{"a": []byte("b")}, "is not the operator's"),
		Entry("when it can't be read", corev1.SecretType(ringsecret.Type), map[string][]byte{"primary": []byte("gone")}, "read the key ring's Secret"),
	)
})

var _ = Describe("The webhook certificate", func() {
	const name = "spec-webhooks"
	var rotator func() *servingcert.Rotator

	BeforeEach(func() {
		namespace := newNamespace()
		newSecret(namespace, "certificate", corev1.SecretTypeOpaque, nil)
		config := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: "webhook"}}
		none := admissionregistrationv1.SideEffectClassNone
		Expect(k8s.Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: []admissionregistrationv1.MutatingWebhook{
				{Name: "a.spec.dev", ClientConfig: config, SideEffects: &none, AdmissionReviewVersions: []string{"v1"}},
				{Name: "b.spec.dev", ClientConfig: config, SideEffects: &none, AdmissionReviewVersions: []string{"v1"}},
			},
		})).To(Succeed())
		Expect(k8s.Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{
				{Name: "c.spec.dev", ClientConfig: config, SideEffects: &none, AdmissionReviewVersions: []string{"v1"}},
			},
		})).To(Succeed())
		DeferCleanup(func() {
			meta := metav1.ObjectMeta{Name: name}
			Expect(k8s.Delete(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta})).To(Succeed())
			Expect(k8s.Delete(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta})).To(Succeed())
		})
		rotator = func() *servingcert.Rotator {
			return &servingcert.Rotator{
				Client: k8s, Secret: types.NamespacedName{Namespace: namespace, Name: "certificate"},
				DNSNames:  []string{"webhook." + namespace + ".svc"},
				Publisher: servingcert.WebhookConfigurations{Client: k8s, Name: name}, Clock: clock.RealClock{},
			}
		}
	})

	bundles := func() [][]byte {
		GinkgoHelper()
		var mutating admissionregistrationv1.MutatingWebhookConfiguration
		var validating admissionregistrationv1.ValidatingWebhookConfiguration
		Expect(k8s.Get(ctx, types.NamespacedName{Name: name}, &mutating)).To(Succeed())
		Expect(k8s.Get(ctx, types.NamespacedName{Name: name}, &validating)).To(Succeed())
		Expect(mutating.Webhooks).To(HaveLen(2))
		Expect(mutating.Webhooks[0].ClientConfig.Service).NotTo(BeNil(), "the patch must change nothing else")
		return [][]byte{mutating.Webhooks[0].ClientConfig.CABundle, mutating.Webhooks[1].ClientConfig.CABundle, validating.Webhooks[0].ClientConfig.CABundle}
	}

	It("is made once for several managers, and every webhook gets its authority", func() {
		first, second := rotator(), rotator()
		Expect(first.Ensure(ctx)).To(Succeed())
		Expect(second.Ensure(ctx)).To(Succeed())
		one, err := first.GetCertificate(nil)
		Expect(err).NotTo(HaveOccurred())
		two, err := second.GetCertificate(nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(two.Certificate).To(Equal(one.Certificate))
		for _, bundle := range bundles() {
			Expect(bundle).NotTo(BeEmpty())
			Expect(bundle).To(Equal(bundles()[0]))
		}
	})

	It("puts the authority back where somebody took it away, and otherwise writes nothing", func() {
		r := rotator()
		Expect(r.Ensure(ctx)).To(Succeed())
		var configuration admissionregistrationv1.ValidatingWebhookConfiguration
		Expect(k8s.Get(ctx, types.NamespacedName{Name: name}, &configuration)).To(Succeed())
		version := configuration.ResourceVersion
		Expect(r.Ensure(ctx)).To(Succeed())
		Expect(k8s.Get(ctx, types.NamespacedName{Name: name}, &configuration)).To(Succeed())
		Expect(configuration.ResourceVersion).To(Equal(version))
		configuration.Webhooks[0].ClientConfig.CABundle = nil
		Expect(k8s.Update(ctx, &configuration)).To(Succeed())
		Expect(r.Ensure(ctx)).To(Succeed())
		Expect(bundles()[2]).To(Equal(bundles()[0]))
	})

	It("is an error when its Secret is missing", func() {
		r := rotator()
		r.Secret.Name = "missing"
		Expect(r.Ensure(ctx)).NotTo(Succeed())
		Expect(r.Ready(nil)).NotTo(Succeed())
	})
})

var _ = Describe("The certificate of an aggregated API", func() {
	const name = "v1.spec.agentruntime.dev"

	It("has its authority put into the APIService, as soon as there is one", func() {
		namespace := newNamespace()
		newSecret(namespace, "certificate", corev1.SecretTypeOpaque, nil)
		rotator := &servingcert.Rotator{
			Client: k8s, Secret: types.NamespacedName{Namespace: namespace, Name: "certificate"},
			DNSNames:  []string{"facade." + namespace + ".svc"},
			Publisher: servingcert.APIService{Client: k8s, Name: name}, Clock: clock.RealClock{},
		}
		Expect(rotator.Ensure(ctx)).To(Succeed(), "no APIService is no error")
		Expect(rotator.Ready(nil)).To(Succeed())

		service := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": name},
			"spec": map[string]any{
				"group": "spec.agentruntime.dev", "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(15),
				"service": map[string]any{"namespace": namespace, "name": "facade", "port": int64(443)},
			},
		}}
		Expect(k8s.Create(ctx, service)).To(Succeed())
		DeferCleanup(func() { Expect(k8s.Delete(ctx, service)).To(Succeed()) })
		Expect(rotator.Ensure(ctx)).To(Succeed())

		var secret corev1.Secret
		Expect(k8s.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "certificate"}, &secret)).To(Succeed())
		Expect(k8s.Get(ctx, types.NamespacedName{Name: name}, service)).To(Succeed())
		Expect(service.Object["spec"]).To(And(
			HaveKeyWithValue("caBundle", base64.StdEncoding.EncodeToString(secret.Data["ca.crt"])),
			HaveKeyWithValue("service", HaveKeyWithValue("name", "facade")),
		))
	})
})
