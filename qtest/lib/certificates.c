/*
 * Certificates for tests of TLS: an authority, and what it signs
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include <glib/gstdio.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "certificates.h"

#define DAY (24 * 60 * 60)

typedef struct Identity {
    gnutls_x509_crt_t certificate;
    gnutls_x509_privkey_t key;
} Identity;

/* ------------------------------------------------------------ directories */

static GPtrArray *directories;

static void remove_directory(const char *directory)
{
    GDir *dir = g_dir_open(directory, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(directory, name, NULL);

        g_unlink(path);
    }
    g_clear_pointer(&dir, g_dir_close);
    g_rmdir(directory);
}

static void remove_all(void)
{
    for (guint i = 0; i < directories->len; i++) {
        remove_directory(g_ptr_array_index(directories, i));
    }
}

const char *certificates_directory(void)
{
    char *dir = g_dir_make_tmp("rnic-tls-XXXXXX", NULL);

    g_assert_nonnull(dir);
    if (!directories) {
        directories = g_ptr_array_new();
        atexit(remove_all);
    }
    g_ptr_array_add(directories, dir);
    return dir;
}

/* ----------------------------------------------------------- certificates */

static void ok(int status)
{
    if (status < 0) {
        g_printerr("gnutls: %s\n", gnutls_strerror(status));
        abort();
    }
}

/* Not signed yet. */
static Identity new_identity(const char *name, bool authority)
{
    static uint32_t serial;
    g_autofree char *dn = g_strdup_printf("CN=%s", name);
    Identity i;

    serial++;
    ok(gnutls_x509_privkey_init(&i.key));
    ok(gnutls_x509_privkey_generate(i.key, GNUTLS_PK_ECDSA,
           GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
    ok(gnutls_x509_crt_init(&i.certificate));
    ok(gnutls_x509_crt_set_version(i.certificate, 3));
    ok(gnutls_x509_crt_set_serial(i.certificate, &serial, sizeof(serial)));
    ok(gnutls_x509_crt_set_dn(i.certificate, dn, NULL));
    ok(gnutls_x509_crt_set_activation_time(i.certificate, time(NULL) - DAY));
    ok(gnutls_x509_crt_set_expiration_time(i.certificate, time(NULL) + DAY));
    ok(gnutls_x509_crt_set_key(i.certificate, i.key));
    ok(gnutls_x509_crt_set_basic_constraints(i.certificate, authority, -1));
    ok(gnutls_x509_crt_set_key_usage(i.certificate, authority
           ? GNUTLS_KEY_KEY_CERT_SIGN
           : GNUTLS_KEY_DIGITAL_SIGNATURE | GNUTLS_KEY_KEY_ENCIPHERMENT));
    return i;
}

static void sign(Identity *i, const Identity *by)
{
    ok(gnutls_x509_crt_sign2(i->certificate, by->certificate, by->key,
                             GNUTLS_DIG_SHA256, 0));
}

static void write_file(const char *dir, const char *name,
                       gnutls_datum_t *pem)
{
    g_autofree char *path = g_build_filename(dir, name, NULL);

    g_assert_true(g_file_set_contents(path, (char *)pem->data, pem->size,
                                      NULL));
    gnutls_free(pem->data);
}

/* DIR/@role-cert.pem and, unless it is the authority's, DIR/@role-key.pem */
static void store(const char *dir, const char *role, const Identity *i,
                  bool with_key)
{
    g_autofree char *cert = g_strdup_printf("%s-cert.pem", role);
    g_autofree char *key = g_strdup_printf("%s-key.pem", role);
    gnutls_datum_t pem;

    ok(gnutls_x509_crt_export2(i->certificate, GNUTLS_X509_FMT_PEM, &pem));
    write_file(dir, cert, &pem);
    if (with_key) {
        ok(gnutls_x509_privkey_export2(i->key, GNUTLS_X509_FMT_PEM, &pem));
        write_file(dir, key, &pem);
    }
}

static void forget(Identity *i)
{
    gnutls_x509_crt_deinit(i->certificate);
    gnutls_x509_privkey_deinit(i->key);
}

static Identity *authority(bool stranger)
{
    static Identity both[2];
    Identity *ca = &both[stranger];

    if (!ca->key) {
        *ca = new_identity(stranger ? "stranger" : "authority", true);
        sign(ca, ca);
    }
    return ca;
}

const char *certificates_new(uint32_t ip, const char *client, bool stranger)
{
    const char *dir = certificates_directory();
    const Identity *ca = authority(stranger);
    uint32_t address = htonl(ip);
    Identity i;

    store(dir, "ca", ca, false);
    i = new_identity("server", false);
    ok(gnutls_x509_crt_set_subject_alt_name(i.certificate,
                                            GNUTLS_SAN_IPADDRESS, &address,
                                            sizeof(address), GNUTLS_FSAN_SET));
    ok(gnutls_x509_crt_set_subject_alt_name(i.certificate, GNUTLS_SAN_DNSNAME,
                                            "server.test", 11,
                                            GNUTLS_FSAN_APPEND));
    sign(&i, ca);
    store(dir, "server", &i, true);
    forget(&i);
    i = new_identity(client, false);
    sign(&i, ca);
    store(dir, "client", &i, true);
    forget(&i);
    return dir;
}
