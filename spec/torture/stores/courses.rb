# frozen_string_literal: true

require_relative "locker"
require_relative "../plan"

module Torture
  module Stores
    # The properties of a store. They decide how the store is disturbed and judged.
    #   product    the class that workers use
    #   place      the class of the store's server or file
    #   tables     the tables that are made before the round: :plock, :locker or nil
    #   blows      the disturbances that are possible
    #   deeds      the events in a block, with weights
    #   settles    seconds from when the store is reachable until a failed call is cleaned up;
    #              nil: the lease of a failed call may stay until it expires
    #   place_s    seconds for which a waiter that gives no sign of life keeps its place
    #   late_s     seconds from the end of a lease until its key is free
    #   bound      does a lease end with its connection, even if it still says that it is valid?
    #   forgets    are all keys free after a restart?
    #   ordered    are waiters served in order?
    #   whole      does a call for several keys get all of them at the same moment?
    #   leases     does the store have leases, and a budget for each call? (Locker does not.)
    #   alone      can one stopped process keep all others waiting?
    Kind = Struct.new(
      :name, :product, :place, :tables, :blows, :deeds, :settles, :place_s, :late_s, :bound,
      :forgets, :ordered, :whole, :leases, :alone, :least_pool, keyword_init: true
    ) do
      def pool(size) = [size, least_pool].max

      # Makes the tables before the workers start. It closes its connections, so that no worker
      # inherits one.
      def prepare(place)
        case tables
        when :plock then Support::Databases.migrate(connect(place, Support::Databases))
        when :locker then connect(place, Support::Lockers)
        end
        ActiveRecord::Base.connection_handler.clear_all_connections!(:all)
        ActiveRecord::Base.connection_handler.connection_pool_list(:all).each(&:disconnect!)
      end

      private

      def connect(place, models) = models.connect("Torture#{Clock.now}", place.config)
    end

    SERVER = %i[kill stop sever dark silence restart calm].freeze
    LEASE_DEEDS = { nil => 95, oops: 2, heartbeat: 0.5, pair: 0.5, handover: 0.5 }.freeze
    PLAIN_DEEDS = { nil => 95, oops: 2 }.freeze

    # Seconds after which a disturbance has no more effects. They are enough for several attempts.
    SETTLED_S = 5.0

    DATABASE = {
      product: DatabaseProduct, tables: :plock, blows: [*SERVER, :cut], deeds: LEASE_DEEDS,
      settles: SETTLED_S, place_s: 4.5, late_s: 0.0, ordered: true, whole: true, leases: true,
      least_pool: 1
    }.freeze
    ADVISORY = {
      product: AdvisoryProduct, blows: [*SERVER, :cut], deeds: LEASE_DEEDS.except(:handover),
      settles: SETTLED_S, place_s: 0.0, late_s: 0.0, bound: true, forgets: true, ordered: true,
      leases: true, least_pool: 16
    }.freeze
    LOCKER = {
      product: LockerProduct, tables: :locker, blows: [*SERVER, :cut], deeds: PLAIN_DEEDS,
      place_s: 0.0, late_s: 0.0, least_pool: 1
    }.freeze

    KINDS = [
      Kind.new(**DATABASE, name: "database-postgresql", place: PostgresqlPlaceWithTables),
      Kind.new(**DATABASE, name: "database-mariadb", place: MariadbPlaceWithTables),
      Kind.new(**DATABASE, name: "database-sqlite", place: SqlitePlaceWithTables, alone: true,
                           blows: %i[kill stop silence calm]),
      Kind.new(name: "advisory-postgresql", place: PostgresqlPlace, **ADVISORY),
      Kind.new(name: "advisory-mariadb", place: MariadbPlace, **ADVISORY),
      Kind.new(name: "memcached", product: MemcachedProduct, place: MemcachedPlace, blows: SERVER,
               deeds: LEASE_DEEDS, place_s: 0.0, late_s: 2.0, forgets: true, leases: true,
               least_pool: 1),
      Kind.new(name: "locker-postgresql", place: PostgresqlPlace, **LOCKER),
      Kind.new(name: "locker-mariadb", place: MariadbPlace, **LOCKER)
    ].each(&:freeze).to_h { |kind| [kind.name, kind] }.freeze

    # Disturbs workers and servers in every way that the kind of store allows. Leases are short.
    ROUGH =
      Course.new(
        **Torture::ROUGH.to_h,
        name: :rough,
        pause: 0.6,
        threads: 3,
        fibers: 0,
        roads: %i[relay],
        pack: {
          kill: 5, stop: 5, cut: 3, sever: 2, dark: 2, silence: 2, restart: 1, calm: 2
        },
        pools: [5, 2, 16, 5],
        weights: {
          **Torture::ROUGH.weights, acquire_all: 4
        },
        ttls: {
          0.5 => 2, 1.0 => 2, 2.0 => 1
        },
        rest: 0.06,
        interrupted: 0.06,
        lengths: {
          none: 10, short: 60, medium: 25, edge: 0.5, overrun: 0.5, renewed: 2
        }
      )

    # Interrupts the workers' calls, and disturbs connections and servers, but not the workers'
    # processes. Leases are long, so that waiters notice a lease that is left behind.
    LASTING = Course.new(
      **ROUGH.to_h, name: :lasting,
      pack: { cut: 4, sever: 3, dark: 2, silence: 2, restart: 1, calm: 1 },
      ttls: { 20.0 => 2, 30.0 => 1 }, waits: { 0.0 => 1, 0.3 => 1, 1.5 => 3, 3.0 => 6 },
      lengths: { none: 10, short: 60, medium: 30 }, interrupted: 0.1
    )

    COURSES = [ROUGH, LASTING].to_h { |course| [course.name, course] }.freeze

    # The course that a seed selects, adapted to this kind of store.
    def self.course_of(seed, kind, name = nil)
      course = name ? COURSES.fetch(name) : COURSES.values[seed % COURSES.size]
      pack = course.pack.slice(*kind.blows)
      ttls = course.name == :lasting && !kind.settles ? { 6.0 => 1 } : course.ttls
      Course.new(**course.to_h, pack: pack, deeds: kind.deeds, ttls: ttls).freeze
    end

    # Blows for stores in Ruby. They last longer than those for Redis.
    class Blows < Torture::Blows
      private

      def duration(kind, share)
        case kind
        when :calm then 4.0
        when :stop then 0.2 + ((share**2) * 5.8)
        when :silence then 0.3 + (share * 2.7)
        else super
        end
      end
    end
  end
end
