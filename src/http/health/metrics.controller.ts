import { Controller, Inject } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { Registry } from 'prom-client';
import { type Asked, Handles } from '../route.js';
import { metricsRoute } from './health-routes.js';

/** The figures of this process, for Prometheus. They name no owner and no plant, and need no token. */
@Controller()
export class MetricsController {
  constructor(@Inject(Registry) private readonly registry: Registry) {}

  @Handles(metricsRoute)
  async metrics(_asked: Asked<typeof metricsRoute>, reply: FastifyReply): Promise<string> {
    reply.type(Registry.PROMETHEUS_CONTENT_TYPE);
    return this.registry.metrics();
  }
}
