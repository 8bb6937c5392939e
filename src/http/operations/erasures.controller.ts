import { Controller, Get, HttpCode, Inject, Post, Req, Res, UseGuards } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { type z } from 'zod';
import { ErasureGate } from '../../erasure/gate.js';
import { type ErasureStatus } from '../../operations/erasure-status.js';
import { type OperatedSystem } from '../../operations/local.js';
import { BearerGuard, Scopes } from '../auth/bearer.guard.js';
import { type GuardedRequest } from '../auth/principal.js';
import { Problem } from '../problem.js';
import { readBody } from '../requests.js';
import { type ErasureAccepted, ErasureCount, type ErasureCounted, NewErasure } from './erasure-schemas.js';
import { askedOf } from './operator.js';
import { SYSTEM } from './operations.controller.js';

/** Erasures of owners. An order is recorded in the log; a process with the role auditor carries it out. */
@Controller('operations/erasures')
@UseGuards(BearerGuard)
@Scopes('plants:erase')
export class ErasuresController {
  constructor(
    @Inject(SYSTEM) private readonly system: OperatedSystem,
    private readonly gate: ErasureGate,
  ) {}

  @Post()
  @HttpCode(202)
  async order(
    @Req() request: GuardedRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<z.input<typeof ErasureAccepted>> {
    const operations = askedOf(this.system, request);
    const erasure = await operations.erase(readBody(request, NewErasure));
    await this.gate.look();
    reply.header('location', `erasures/${erasure}`);
    return { erasure };
  }

  /** By POST, since the URL of a request is logged. */
  @Post('counts')
  @HttpCode(200)
  async count(@Req() request: GuardedRequest): Promise<z.input<typeof ErasureCounted>> {
    const operations = askedOf(this.system, request);
    return { events: await operations.countOwned(readBody(request, ErasureCount).owner) };
  }

  @Get(':id')
  async show(@Req() request: GuardedRequest): Promise<ErasureStatus> {
    const found = await askedOf(this.system, request).erasure((request.params as { id: string }).id);
    if (!found) throw new Problem('erasure_not_found', 'There is no such erasure.');
    return found;
  }
}
