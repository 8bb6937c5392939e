import { Controller, Get, HttpCode, Inject, Post, Req, Res, UseGuards } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { type z } from 'zod';
import { type Erasure, readErasures } from '../../erasure/erasures.js';
import { ErasureGate } from '../../erasure/gate.js';
import { orderErasure } from '../../erasure/order.js';
import { type System } from '../../operations/status.js';
import { BearerGuard, Scopes } from '../auth/bearer.guard.js';
import { type GuardedRequest } from '../auth/principal.js';
import { Problem } from '../problem.js';
import { readBody, readQuery, refuseUnlessJsonIsAccepted } from '../requests.js';
import { NoQuery } from '../schemas.js';
import { type ErasureAccepted, type ErasureStatus, NewErasure } from './erasure-schemas.js';
import { operatorOf } from './operator.js';
import { SYSTEM } from './operations.controller.js';

/** Erasures of owners. An order is recorded in the log; a process with the role auditor carries it out. */
@Controller('operations/erasures')
@UseGuards(BearerGuard)
@Scopes('plants:erase')
export class ErasuresController {
  constructor(
    @Inject(SYSTEM) private readonly system: System,
    private readonly gate: ErasureGate,
  ) {}

  @Post()
  @HttpCode(202)
  async order(
    @Req() request: GuardedRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<z.input<typeof ErasureAccepted>> {
    refuseUnlessJsonIsAccepted(request);
    readQuery(request, NoQuery);
    const operator = operatorOf(request);
    const { owner, reason } = readBody(request, NewErasure);
    const { log, now } = this.system;
    const erasure = await orderErasure(log, { erasure: operator.commandId, owner, reason }, operator, now);
    await this.gate.look();
    reply.header('location', `erasures/${erasure}`);
    return { erasure };
  }

  @Get(':id')
  async show(@Req() request: GuardedRequest): Promise<z.input<typeof ErasureStatus>> {
    refuseUnlessJsonIsAccepted(request);
    readQuery(request, NoQuery);
    const { id } = request.params as { id: string };
    const { all } = await readErasures(this.system.log);
    const found = all.find(({ erasure }) => erasure === id);
    if (!found) throw new Problem('erasure_not_found', 'There is no such erasure.');
    return shown(found);
  }
}

const shown = ({ orderedAt, since, events, ...erasure }: Erasure) => ({
  ...erasure,
  orderedAt: orderedAt.toISOString(),
  since: since.toISOString(),
  events: events ?? null,
});
