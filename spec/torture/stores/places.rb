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
    # The name of a worker's user. It tells whose connection the server has cut.
    USER = /\Aw(\d+)\z/.freeze

    # Finds the processes of a server by their parents, because each process of PostgreSQL has its
    # own process group.
    module Processes
      def self.below(pid)
        children = parents.select { |_, parent| parent == pid }.keys
        [pid, *children.flat_map { |child| below(child) }]
      end

      # @return [Hash{Integer => Integer}] the parent of each process of the machine
      def self.parents
        Dir.children("/proc").grep(/\A\d+\z/).filter_map do |pid|
          [pid.to_i, File.read("/proc/#{pid}/stat")[/\) \S (\d+)/, 1].to_i]
        rescue SystemCallError
          nil # this process has just ended
        end.to_h
      end
    end

    # A server for one round. A crash ends its processes, not the machine, so all acknowledged
    # data must survive the crash.
    class Place
      attr_reader :server

      def port = @server.port

      # Stops the server's processes until thaw_processes. Statements that arrive meanwhile are
      # executed afterwards.
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

      # Cuts one connection of a worker.
      #
      # @param roll [Float] 0...1, selects the connection
      # @return [Integer, nil] the slot of the worker
      def cut(roll)
        victims = connections.sort
        id, user = victims[(roll * victims.size).floor]
        return unless id

        disconnect(id)
        user[USER, 1].to_i
      end

      # @return [Integer] the number of connections that workers have left open
      def left_connections = connections.size

      # @return [Array<String>] the records of holders and waiters in the tables
      def records = []

      # @return [Integer] the number of places in the queue that have expired but were not removed
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
          nil # this process has just ended
        end
      end

      HELD = "SELECT holder FROM plock_leases WHERE holder IS NOT NULL AND expires_at > %<now>s " \
             "UNION ALL SELECT holder FROM plock_claims WHERE expires_at > %<now>s"
      GHOSTS = "SELECT count(*) FROM plock_claims WHERE expires_at < %<now>s"
      MICROSECONDS = 1_000_000
    end

    # Reads the tables of a store in a database. The server runs on this machine, so both have the
    # same clock.
    module Tables
      def records = rows(format(Place::HELD, now: now)).map(&:first)
      def ghosts = rows(format(Place::GHOSTS, now: now)).dig(0, 0).to_i

      private

      def now = Process.clock_gettime(Process::CLOCK_REALTIME, :microsecond)
    end

    # PostgreSQL. SIGQUIT is an immediate shutdown, which ends its processes without any cleanup.
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

    # A MariaDB that writes to its log at each commit, so that a crash of its process loses
    # nothing.
    class DurableMariadb < Support::Mariadb
      def initialize(users)
        super()
        @users = users
      end

      private

      # The server creates the workers' users when it starts, because the user of the specs may not
      # grant permissions.
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
        nil # the connection has just ended
      end
    end

    # memcached. It forgets all keys when it is restarted.
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

    # A SQLite file. There is no server that could stop answering, so another application holds the
    # file's write lock for a while.
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
        nil # an open transaction of a stopped process already blocks the file
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
