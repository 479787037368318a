# frozen_string_literal: true

require "mysql2"
require "pg"
require "sqlite3"
require "support/databases"
require "support/mariadb"
require "support/memcached"
require "support/postgres"

module Torture
  module Stores
    # The user of a worker. It tells whose connection a server cuts.
    USER = /\Aw(\d+)\z/.freeze

    # The processes of a server, by their parents: those of PostgreSQL are groups of their own.
    module Processes
      def self.below(pid)
        children = parents.select { |_, parent| parent == pid }.keys
        [pid, *children.flat_map { |child| below(child) }]
      end

      # @return [Hash{Integer => Integer}]
      def self.parents
        Dir.children("/proc").grep(/\A\d+\z/).filter_map do |pid|
          [pid.to_i, File.read("/proc/#{pid}/stat")[/\) \S (\d+)/, 1].to_i]
        rescue SystemCallError
          nil # it ended meanwhile
        end.to_h
      end
    end

    # A server of this run, as the arena needs it. A crash is one of its processes, not of the
    # machine, so all acknowledged data must survive.
    class Place
      attr_reader :server

      def port = @server.port

      # Its processes stand still until thaw: statements that arrive before are carried out later.
      def freeze_processes
        @frozen = Processes.below(@server.pid)
        @frozen.each { |pid| Support::Supervisor.watch(pid) unless pid == @server.pid }
        signal(:STOP)
      end

      def thaw_processes
        return unless @frozen

        signal(:CONT)
        (@frozen - [@server.pid]).each { |pid| Support::Supervisor.forget(pid) }
        @frozen = nil
      end

      def restart
        @server.__send__(:finish_server, self.class::CRASH)
        @server.__send__(:launch, port)
      end

      # Cuts one connection of a worker, and says whose it was.
      #
      # @param roll [Float] 0...1: which one
      # @return [Integer, nil] the slot
      def cut(roll)
        victims = connections.sort
        id, user = victims[(roll * victims.size).floor]
        return unless id

        disconnect(id)
        user[USER, 1].to_i
      end

      # @return [Integer] the connections that workers have left open
      def left_connections = connections.size

      # @return [Array<String>] the held and awaited keys in the tables
      def records = []

      # @return [Integer] expired places in line that were not removed
      def ghosts = 0

      def stop
        thaw_processes
        @server&.stop
      end

      private

      def signal(name)
        @frozen.each do |pid|
          Process.kill(name, pid)
        rescue Errno::ESRCH
          nil # it ended meanwhile
        end
      end

      HELD = "SELECT holder FROM plock_leases WHERE holder IS NOT NULL AND expires_at > %<now>s " \
             "UNION ALL SELECT holder FROM plock_claims WHERE expires_at > %<now>s"
      GHOSTS = "SELECT count(*) FROM plock_claims WHERE expires_at < %<now>s"
      MICROSECONDS = 1_000_000
    end

    # The tables of a store in a database, by this machine's clock, which is also the server's.
    module Tables
      def records = rows(format(Place::HELD, now: now)).map(&:first)
      def ghosts = rows(format(Place::GHOSTS, now: now)).dig(0, 0).to_i

      private

      def now = Process.clock_gettime(Process::CLOCK_REALTIME, :microsecond)
    end

    # PostgreSQL: an immediate shutdown ends it without notifying its clients.
    class PostgresqlPlace < Place
      CRASH = :QUIT

      def initialize(users)
        super()
        @server = Support::Postgres.new.start
        ask { |admin| users.each { |user| admin.exec("CREATE ROLE #{user} SUPERUSER LOGIN") } }
      end

      def config = @server.config
      def config_of(user, port) = @server.tcp_config(port: port, username: user, connect_timeout: 2)

      private

      def ask
        admin = PG.connect(host: @server.folder, port: port, user: Support::Postgres::USER,
                           dbname: Support::Postgres::DATABASE)
        yield admin
      ensure
        admin&.close
      end

      def rows(sql) = ask { |admin| admin.exec(sql).values }

      def connections
        rows("SELECT pid, usename FROM pg_stat_activity WHERE usename ~ '^w[0-9]+$'")
      end

      def disconnect(id) = rows("SELECT pg_terminate_backend(#{id})")
    end

    # MariaDB that writes at each commit, so that a crash of its process loses nothing.
    class DurableMariadb < Support::Mariadb
      def initialize(users)
        super()
        @users = users
      end

      private

      # The server itself creates the users of workers, because its other users may not.
      def initialize_data
        super
        File.open(File.join(@folder, "init.sql"), "a") do |file|
          @users.each do |user|
            file.puts("CREATE USER IF NOT EXISTS '#{user}'@'127.0.0.1';",
                      "GRANT ALL ON *.* TO '#{user}'@'127.0.0.1';")
          end
        end
      end

      def start_command(port) = super + ["--innodb-flush-log-at-trx-commit=2"]
    end

    class MariadbPlace < Place
      CRASH = :KILL

      def initialize(users)
        super()
        @server = DurableMariadb.new(users).start
      end

      def config = @server.config("mysql2")

      def config_of(user, port)
        @server.tcp_config("mysql2", port: port).merge(username: user, connect_timeout: 2)
      end

      private

      def ask
        admin = Mysql2::Client.new(socket: config[:socket], username: config[:username],
                                   database: config[:database])
        yield admin
      ensure
        admin&.close
      end

      def rows(sql) = ask { |admin| admin.query(sql, as: :array).to_a }

      def connections
        rows("SELECT id, user FROM information_schema.processlist WHERE user REGEXP '^w[0-9]+$'")
      end

      def disconnect(id)
        rows("KILL #{id}")
      rescue Mysql2::Error
        nil # it ended by itself
      end
    end

    # memcached forgets everything when it is restarted.
    class MemcachedPlace < Place
      CRASH = :KILL

      def initialize(_users)
        super()
        @server = Support::Memcached.new.start
        @own = count
      end

      def config_of(_user, port) = "127.0.0.1:#{port}"

      def left_connections = count - @own

      private

      def count
        TCPSocket.open("127.0.0.1", port) do |connection|
          connection.write("stats\r\nquit\r\n")
          connection.read[/curr_connections (\d+)/, 1].to_i
        end
      end
    end

    # A file. For a silent server there is an application that writes for a while.
    class SqlitePlace < Place
      def initialize(_users)
        super()
        @path = File.join(Support::Supervisor.folder, "torture-#{Clock.now}.sqlite3")
      end

      def port = nil
      def config = { adapter: "sqlite3", database: @path, timeout: 5_000 }
      def config_of(_user, _port) = config
      def left_connections = 0

      def freeze_processes
        @writer = SQLite3::Database.new(@path)
        @writer.busy_timeout = 1_000
        @writer.execute("BEGIN IMMEDIATE")
      rescue SQLite3::BusyException
        nil # a process was stopped in the middle of a transaction: the file cannot be more silent
      end

      def thaw_processes
        @writer&.rollback if @writer&.transaction_active?
        @writer&.close
        @writer = nil
      end

      def stop = thaw_processes

      private

      def rows(sql)
        database = SQLite3::Database.new(@path)
        database.busy_timeout = 5_000
        database.execute(sql)
      ensure
        database&.close
      end
    end

    [PostgresqlPlace, MariadbPlace, SqlitePlace].each do |place|
      const_set(:"#{place.name[/\w+\z/]}WithTables", Class.new(place) { include Tables })
    end
  end
end
