// How far a synthetic count may be from the count behind it.
//
// A workplace with n real jobs and a public prior of size A publishes m synthetic jobs drawn from a Dirichlet-
// multinomial law: the number z of them in a group of homes is beta-binomial with m draws and N = n + A balls in the
// urn, of which n_g + a_g belong to the group. Its variance is m p (1 - p) (N + m) / (N + 1) with p = (n_g + a_g) / N.
// Multiplied by N / m it estimates n_g + a_g. Draws of different workplaces are independent, so variances add.
// p is not known; (z + 1/2) / (m + 1) stands for it, so that a count of zero is not shown as certain.

/** Variance of the estimate for a group in which a workplace shows `shown` of its `drawn` jobs. */
export function drawVariance(shown, drawn, prior) {
  if (drawn <= 0 || shown >= drawn) return 0; // all its jobs: the size of a workplace is public
  const urn = drawn + prior;
  const p = (shown + 0.5) / (drawn + 1);
  return ((urn * urn) / drawn) * p * (1 - p) * ((urn + drawn) / (urn + 1));
}

/** The range shown for a count: two standard errors to either side, at least nothing and at most all jobs. */
export function rangeOf(count, variance, all) {
  const reach = 2 * Math.sqrt(variance);
  return [Math.max(0, Math.floor(count - reach)), Math.min(all, Math.ceil(count + reach))];
}

/** Of `drawn` jobs of a workplace, the share that on average says more about the public prior than about its workers. */
export function priorShare(drawn, prior) {
  return drawn > 0 ? prior / (drawn + prior) : 0;
}
