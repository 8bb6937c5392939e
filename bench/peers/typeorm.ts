/* eslint-disable -- without their types, typed rules can say nothing */
// @ts-nocheck -- its packages are its own: bench/peers/package.json, installed by `npm run bench:peers` only
/**
 * The same API as most would write it: NestJS on Express, TypeORM, PostgreSQL, as the documentation of NestJS shows
 * it. One row for each plant, found by its primary key (owner, id), which also serves the list. No log of requests.
 */
import 'reflect-metadata';
import { createSecretKey } from 'node:crypto';
import {
  Body,
  CanActivate,
  ConflictException,
  Controller,
  Delete,
  ExecutionContext,
  Get,
  HttpCode,
  Injectable,
  Module,
  NotFoundException,
  Param,
  ParseIntPipe,
  Post,
  Query,
  Req,
  Res,
  UnauthorizedException,
  UseGuards,
  ValidationPipe,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { JwtModule, JwtService } from '@nestjs/jwt';
import { InjectRepository, TypeOrmModule } from '@nestjs/typeorm';
import { Type } from 'class-transformer';
import { IsInt, IsOptional, IsString, Length, Matches, Max, Min } from 'class-validator';
import { Column, Entity, PrimaryColumn, Repository } from 'typeorm';

const MAX_LIMIT = 1_000;

@Entity('plants')
class Plant {
  @PrimaryColumn('text')
  owner: string;

  @PrimaryColumn('bigint', { transformer: { to: (id: number) => id, from: Number } })
  id: number;

  @Column('varchar', { length: 200 })
  name: string;

  @Column('varchar', { length: 200 })
  tag: string;
}

/** TypeORM advises against `synchronize` in production. */
class CreatePlants1700000000000 {
  up(runner) {
    return runner.query(
      'CREATE TABLE plants (owner text, id bigint, name varchar(200) NOT NULL, tag varchar(200) NOT NULL, PRIMARY KEY (owner, id))',
    );
  }
}

class NewPlant {
  @IsString()
  @Length(1, 200)
  @Matches(/^\P{Cc}*$/u)
  name: string;

  @IsString()
  @Length(0, 200)
  @Matches(/^\P{Cc}*$/u)
  tag: string;

  @IsInt()
  @Min(Number.MIN_SAFE_INTEGER)
  @Max(Number.MAX_SAFE_INTEGER)
  id: number;
}

class ListQuery {
  @IsOptional()
  @Type(() => Number)
  @IsInt()
  @Min(1)
  limit = 100;
}

@Injectable()
class AuthGuard implements CanActivate {
  constructor(private readonly jwt: JwtService) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = context.switchToHttp().getRequest();
    const [type, token] = request.headers.authorization?.split(' ') ?? [];
    if (type !== 'Bearer' || !token) throw new UnauthorizedException();
    try {
      request.owner = (await this.jwt.verifyAsync(token)).sub;
    } catch {
      throw new UnauthorizedException();
    }
    return true;
  }
}

@Controller('plants')
@UseGuards(AuthGuard)
class PlantsController {
  constructor(@InjectRepository(Plant) private readonly plants: Repository<Plant>) {}

  @Post()
  async create(@Req() { owner }, @Body() plant: NewPlant, @Res({ passthrough: true }) response) {
    try {
      await this.plants.insert({ owner, ...plant });
    } catch (error) {
      if (error.driverError?.code === '23505') throw new ConflictException();
      throw error;
    }
    response.location(`/plants/${plant.id}`);
    return { name: plant.name, tag: plant.tag };
  }

  @Get()
  list(@Req() { owner }, @Query() { limit }: ListQuery) {
    return this.plants.find({
      select: { name: true, tag: true },
      where: { owner },
      order: { id: 'ASC' },
      take: Math.min(limit, MAX_LIMIT),
    });
  }

  @Delete(':id')
  @HttpCode(204)
  async delete(@Req() { owner }, @Param('id', ParseIntPipe) id: number): Promise<void> {
    const { affected } = await this.plants.delete({ owner, id });
    if (affected === 0) throw new NotFoundException();
  }
}

/**
 * A text, as the documentation of NestJS has it: jsonwebtoken then tries with each request to read a public key from
 * it, which takes half of the request. Or a key, which nobody documents, and which spares that.
 */
const SECRET = process.env.SECRET_AS_KEY
  ? createSecretKey(Buffer.from(process.env.JWT_SECRET))
  : process.env.JWT_SECRET;

@Module({
  imports: [
    TypeOrmModule.forRoot({
      type: 'postgres',
      url: process.env.DATABASE_URL,
      entities: [Plant],
      migrations: [CreatePlants1700000000000],
      migrationsRun: true,
      synchronize: false,
      logging: false,
      poolSize: Number(process.env.POOL_SIZE),
    }),
    TypeOrmModule.forFeature([Plant]),
    JwtModule.register({ secret: SECRET }),
  ],
  controllers: [PlantsController],
})
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: ['error'] });
app.useGlobalPipes(new ValidationPipe({ whitelist: true, forbidNonWhitelisted: true, transform: true }));
app.enableShutdownHooks();
await app.listen(Number(process.env.PORT), '127.0.0.1');
