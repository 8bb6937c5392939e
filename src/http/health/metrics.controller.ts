import { Controller, Get, Inject, Req, Res } from '@nestjs/common';
import { type FastifyReply, type FastifyRequest } from 'fastify';
import { Registry } from 'prom-client';
import { readQuery } from '../requests.js';
import { NoQuery } from '../schemas.js';

/** The figures of this process, for Prometheus. They name no owner and no plant, and need no token. */
@Controller('metrics')
export class MetricsController {
  constructor(@Inject(Registry) private readonly registry: Registry) {}

  @Get()
  async metrics(
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<string> {
    readQuery(request, NoQuery);
    reply.type(Registry.PROMETHEUS_CONTENT_TYPE);
    return this.registry.metrics();
  }
}
