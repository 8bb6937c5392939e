import { bad, type Environment, given, oneOf, setting } from './setting-values.js';

const SAMPLERS = [
  ...(['always_on', 'always_off', 'traceidratio'] as const),
  ...(['parentbased_always_on', 'parentbased_always_off', 'parentbased_traceidratio'] as const),
] as const;
export type SamplerName = (typeof SAMPLERS)[number];

/**
 * The sampling of traces, and their collector. The other variables of OpenTelemetry, the header fields' secret among
 * them, are read by OpenTelemetry itself.
 */
export interface TracingConfig {
  readonly collector: URL;
  readonly sampler: SamplerName;
  /** The share of traces that `traceidratio` makes, from 0 to 1. */
  readonly ratio: number;
}

/** Undefined where nothing is traced. Throws ConfigError. */
export const tracing = (env: Environment): TracingConfig | undefined => {
  const endpoint = given(env, 'OTEL_EXPORTER_OTLP_ENDPOINT');
  // Without an endpoint the other variables have no effect: they may be meant for other services.
  if (endpoint === undefined) return undefined;
  const sampler = oneOf(env, 'OTEL_TRACES_SAMPLER', SAMPLERS);
  const share = setting(env, 'OTEL_TRACES_SAMPLER_ARG');
  const ratio = /^(0|1|0?\.\d{1,15}|[01]\.0*)$/.test(share) ? Number(share) : NaN;
  if (Number.isNaN(ratio)) throw bad('OTEL_TRACES_SAMPLER_ARG', share, 'a number from 0 to 1');
  return { collector: collector(endpoint), sampler, ratio };
};

/**
 * Reads the endpoint of OTLP, and adds its path for traces. https://opentelemetry.io/docs/specs/otel/protocol/exporter/
 */
const collector = (endpoint: string): URL => {
  const name = 'OTEL_EXPORTER_OTLP_ENDPOINT';
  const allowed = 'an http or https URL without a user name, a password and a query';
  if (!URL.canParse(endpoint)) throw bad(name, endpoint, allowed);
  const url = new URL(endpoint);
  const plain = url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (!['http:', 'https:'].includes(url.protocol) || !plain) throw bad(name, endpoint, allowed);
  url.pathname = `${url.pathname.replace(/\/$/, '')}/v1/traces`;
  return url;
};
