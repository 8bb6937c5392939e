import { Controller, HttpCode, Inject, Post, Req, Res, UseGuards } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { type z } from 'zod';
import { skipUnread } from '../../operations/skip-unread.js';
import { type System } from '../../operations/status.js';
import { BearerGuard, Scopes } from '../auth/bearer.guard.js';
import { type GuardedRequest } from '../auth/principal.js';
import { readBody, readQuery, refuseUnlessJsonIsAccepted } from '../requests.js';
import { NoQuery } from '../schemas.js';
import { NewSkip, type SkipAccepted } from './operation-schemas.js';
import { STATUS, SYSTEM } from './operations.controller.js';
import { operatorOf } from './operator.js';

/** Events that cannot be read, and are left out of the lists. A decision is recorded in the log; projectors follow it. */
@Controller('operations/skips')
@UseGuards(BearerGuard)
@Scopes('plants:operate')
export class SkipsController {
  constructor(@Inject(SYSTEM) private readonly system: System) {}

  @Post()
  @HttpCode(202)
  async skip(
    @Req() request: GuardedRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<z.input<typeof SkipAccepted>> {
    refuseUnlessJsonIsAccepted(request);
    readQuery(request, NoQuery);
    const operator = operatorOf(request);
    const { position, reason, force = false } = readBody(request, NewSkip);
    const skipped = await skipUnread(this.system, { position, reason, force }, operator);
    reply.header('location', STATUS);
    return skipped;
  }
}
